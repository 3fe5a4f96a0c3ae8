// SPDX-License-Identifier: GPL-2.0
/* Walk over XML: see xml.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "xml.h"

#define SPACE	" \t\r\n"
#define NO_NAME	SPACE "/>=\"'<"

void rd_xml_begin(struct rd_xml *xml, const char *text, size_t len)
{
	memset(xml, 0, sizeof(*xml));
	xml->at = text;
	xml->end = text + len;
}

/* Find @mark from @at on; NULL: it is not there. */
static const char *find(const struct rd_xml *xml, const char *at, const char *mark)
{
	return memmem(at, xml->end - at, mark, strlen(mark));
}

/* --- text */

static const struct {
	const char *name;
	char is;
} entities[] = {
	{ "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' }, { "&apos;", '\'' },
};

/* Copy [@from, @to) with its entities. */
static void copy(char *ret, size_t size, const char *from, const char *to)
{
	size_t len = 0, part;
	unsigned int i;
	char is;

	while (from < to && len + 1 < size) {
		is = *from;
		part = 1;
		for (i = 0; i < ARRAY_SIZE(entities); i++)
			if ((size_t)(to - from) >= strlen(entities[i].name) &&
			    !memcmp(from, entities[i].name, strlen(entities[i].name))) {
				is = entities[i].is;
				part = strlen(entities[i].name);
			}
		ret[len++] = is;
		from += part;
	}
	ret[len] = '\0';
}

static bool is_space(char c)
{
	return c && strchr(SPACE, c);
}

static void take_text(struct rd_xml *xml)
{
	const char *from = xml->at, *to = find(xml, from, "<");

	to = to ? to : xml->end;
	while (from < to && is_space(*from))
		from++;
	while (from < to && is_space(to[-1]))
		to--;
	copy(xml->text, sizeof(xml->text), from, to);
}

/* --- elements */

static size_t name_length(const char *at, const char *end)
{
	const char *from = at;

	while (at < end && *at && !strchr(NO_NAME, *at))
		at++;
	return at - from;
}

/* Find the ">" of the element whose attributes begin at @at; one in quotes does not end it. */
static const char *find_end(const struct rd_xml *xml, const char *at)
{
	char quote = '\0';

	for (; at < xml->end; at++) {
		if (quote)
			quote = *at == quote ? '\0' : quote;
		else if (*at == '"' || *at == '\'')
			quote = *at;
		else if (*at == '>')
			return at;
	}
	return NULL;
}

static int begin_element(struct rd_xml *xml)
{
	size_t len = name_length(xml->at, xml->end), path = strlen(xml->path);
	const char *end = find_end(xml, xml->at + len);

	if (!len || !end || path + len + 2 > sizeof(xml->path))
		return -EINVAL;
	snprintf(xml->path + path, sizeof(xml->path) - path, "%s%.*s", path ? "/" : "", (int)len,
		 xml->at);
	xml->is_empty = end[-1] == '/';
	xml->attributes = xml->at + len;
	xml->attributes_end = end - xml->is_empty;
	xml->at = end + 1;
	xml->text[0] = '\0';
	if (!xml->is_empty)
		take_text(xml);
	return RD_XML_BEGIN;
}

/* Its path stays until the next event. */
static int end_element(struct rd_xml *xml)
{
	size_t len = name_length(xml->at, xml->end);
	const char *end = find(xml, xml->at, ">"), *slash = strrchr(xml->path, '/');
	const char *name = slash ? slash + 1 : xml->path;

	if (!end || !len || strlen(name) != len || memcmp(name, xml->at, len))
		return -EINVAL;
	xml->at = end + 1;
	xml->has_ended = true;
	return RD_XML_END;
}

/* What has ended goes from the path. */
static void leave(struct rd_xml *xml)
{
	char *slash = strrchr(xml->path, '/');

	*(slash ? slash : xml->path) = '\0';
	xml->has_ended = false;
}

/* Pass by "<?...?>" or "<!--...-->"; false: it is neither. */
static bool pass_by(struct rd_xml *xml)
{
	static const char *const marks[][2] = { { "<?", "?>" }, { "<!--", "-->" } };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(marks); i++) {
		size_t len = strlen(marks[i][0]);
		const char *end;

		if ((size_t)(xml->end - xml->at) < len || memcmp(xml->at, marks[i][0], len))
			continue;
		end = find(xml, xml->at, marks[i][1]);
		xml->at = end ? end + strlen(marks[i][1]) : xml->end;
		return true;
	}
	return false;
}

int rd_xml_next(struct rd_xml *xml)
{
	if (xml->has_ended)
		leave(xml);
	if (xml->is_empty) {
		xml->is_empty = false;
		xml->has_ended = true;
		return RD_XML_END;
	}
	do {
		xml->at = find(xml, xml->at, "<");
		if (!xml->at) {
			xml->at = xml->end;
			return xml->path[0] ? -EINVAL : RD_XML_OVER;
		}
	} while (pass_by(xml));
	xml->at++;
	if (xml->at < xml->end && *xml->at == '/') {
		xml->at++;
		return end_element(xml);
	}
	return begin_element(xml);
}

bool rd_xml_attribute(const struct rd_xml *xml, const char *name, char *ret, size_t size)
{
	const char *at = xml->attributes, *end = xml->attributes_end, *value, *to;
	size_t len;

	ret[0] = '\0';
	for (;;) {
		while (at < end && is_space(*at))
			at++;
		len = name_length(at, end);
		value = at + len + 2;
		if (!len || value > end || at[len] != '=' || !strchr("\"'", value[-1]))
			return false;
		to = memchr(value, value[-1], end - value);
		if (!to)
			return false;
		if (len == strlen(name) && !memcmp(at, name, len)) {
			copy(ret, size, value, to);
			return true;
		}
		at = to + 1;
	}
}
