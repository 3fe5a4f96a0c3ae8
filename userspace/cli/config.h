/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The settings of /etc/revdedup/revdedup.conf, see revdedup.conf(5). A setting is an option
 * that need not be given: it has the option's name, and counts where the option, and a
 * variable of the environment for it, are not there.
 */
#ifndef CTL_CONFIG_H
#define CTL_CONFIG_H

#include "base/buffer.h"

struct ctl;

struct ctl_config {
	char *path;
	bool is_missing;		/* there is no such file, and it need not be there */
	const char *then;		/* what follows from a mistake in it */
	int error;			/* status and doctor go on nevertheless */
	struct rd_buffer text;
	struct rd_buffer settings;	/* struct ctl_setting each, in the order of the file */
};

/*
 * Read the file if the command takes --config, and add the settings of options that the
 * command takes and that are not given. Says what is wrong; CTL_USAGE or -errno. For status
 * and doctor, only @ctl->config.error has that: a mistake in the file hides no volume.
 *
 * Rules for keeping versions are one setting: one of them on the command line replaces all
 * of the file.
 */
int ctl_config_load(struct ctl *ctl);
void ctl_config_free(struct ctl_config *config);

#endif
