/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Walk over the XML in which libvirt defines a domain.
 *
 * By hand, as so little of it is wanted, and as a version that came from elsewhere may hold
 * anything: no entity is expanded but for the five, there is no DTD, and all is bounded.
 */
#ifndef RD_XML_H
#define RD_XML_H

#include <stdbool.h>
#include <stddef.h>

#define RD_XML_TEXT	256

enum rd_xml_event {
	RD_XML_OVER,		/* no more */
	RD_XML_BEGIN,		/* of the element with the path @path */
	RD_XML_END,		/* of the same */
};

struct rd_xml {
	const char *at, *end;
	char path[RD_XML_TEXT];		/* "domain/os/type" */
	const char *attributes;		/* of the element that begins, up to @attributes_end */
	const char *attributes_end;
	char text[RD_XML_TEXT];		/* behind its beginning, without blanks around; cut */
	bool is_empty, has_ended;
};

void rd_xml_begin(struct rd_xml *xml, const char *text, size_t len);
/* Go on: enum rd_xml_event, or -EINVAL: it is not XML that this can read. */
int rd_xml_next(struct rd_xml *xml);
/* Copy the attribute @name of the element that has begun; "": it has none. True: it has. */
bool rd_xml_attribute(const struct rd_xml *xml, const char *name, char *ret, size_t size);

#endif
