// SPDX-License-Identifier: GPL-2.0
/* revdedupctl receive: versions from another pool, or from what send has written. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pool/stream/receive.h"
#include "remote.h"

static int check_options(const struct ctl *ctl, bool from_file)
{
	int i;

	/* The other end alone knows which volumes that is, and may send what it likes. */
	for (i = 0; i < ctl->nr_operands; i++)
		if (ctl->operands[i][0] == '@')
			return ctl_usage(ctl, "'receive' takes volumes and their versions: name VOL%s for each",
					 ctl->operands[i]);
	if (ctl->nr_operands != 1 && ctl_has(ctl, CTL_OPT_AS) && !from_file)
		return ctl_usage(ctl, "--as is for one volume");
	if (from_file && ctl->nr_operands)
		return ctl_usage(ctl, "a stream has all that it has: volumes are named with --from");
	if (from_file && isatty(STDIN_FILENO))
		return ctl_usage(ctl, "name a pool with --from, or let stdin come from a file");
	if (!from_file && ctl_has(ctl, CTL_OPT_ALL) == !!ctl->nr_operands)
		return ctl_usage(ctl, "name a volume or a version, or use --all");
	return ctl_check_as(ctl);
}

static void tell(void *ctx, const char *volume, const struct rd_version *version, u64 bytes)
{
	char name[CTL_VERSION_TEXT];
	struct ctl *ctl = ctx;

	ctl_name_print(name, volume, version->number);
	ctl_progress_clear(&ctl->progress);
	if (ctl->json) {
		ctl_json(ctl, "receive", "version=%s bytes_received=%llu bytes_stored=%llu", name,
			 bytes, version->bytes_stored);
	} else if (!ctl->quiet) {
		printf("received %s: %s\n", name, ctl_size(bytes));
	}
}

static void tell_all(struct ctl *ctl, const struct rd_wire *wire,
		     const struct rd_receive_report *report)
{
	if (ctl->json) {
		ctl_json_begin(ctl, "received");
		rd_json_add(&ctl->out, "versions=%llu versions_refused=%llu blocks_changed=%llu",
			    report->versions, report->skipped, report->blocks_changed);
		rd_json_add(&ctl->out, "bytes_sent=%llu bytes_received=%llu",
			    wire->sent, wire->received);
		ctl_json_end(ctl);
	} else if (!ctl->quiet && !report->versions) {
		printf("nothing new to receive from %s\n", wire->peer);
	} else if (!ctl->quiet && wire->out >= 0) {
		printf("%llu version%s: %s over the wire, for %s that changed\n", report->versions,
		       report->versions == 1 ? "" : "s", ctl_size(wire->sent + wire->received),
		       ctl_size(report->blocks_changed * RD_BLOCK_SIZE));
	}
}

/* The other end sends what it likes: only what was asked for is taken. */
static bool was_asked_for(void *ctx, const char *volume)
{
	const struct ctl *ctl = ctx;
	struct ctl_name name;
	int i;

	for (i = 0; i < ctl->nr_operands; i++)
		if (!ctl_name_parse(&name, ctl->operands[i]) && !strcmp(name.volume, volume))
			return true;
	return ctl_has(ctl, CTL_OPT_AS) || !ctl->nr_operands;
}

static int receive(struct ctl *ctl, struct rd_wire *wire)
{
	struct rd_receive_options options = {
		.share = RD_SHARE_PROVEN,
		.is_volume = ctl_is_volume,
		.is_tag = ctl_is_tag,
		.may_write = was_asked_for,
		.as = ctl_value(ctl, CTL_OPT_AS),
		.limit = U64_MAX,
		.tell = tell,
		.ctx = ctl,
	};
	struct rd_receive_report report;
	int r;

	wire->receives = true;
	r = rd_receive(ctl->pool, wire, &options, &report);
	if (!r)
		tell_all(ctl, wire, &report);
	return r ? r : report.skipped ? CTL_PARTLY : 0;
}

static int receive_from(struct ctl *ctl, const char *from)
{
	struct ctl_remote remote;
	u64 newest = 0;
	int r = ctl_value_number(ctl, CTL_OPT_NEWEST, 1, CTL_KEEP_MAX, &newest);

	if (!r)
		r = ctl_remote_start(ctl, from, &remote, 'R');
	if (r)
		return r;
	r = ctl_remote_request(ctl, &remote.wire, ctl->nr_operands, newest);
	if (!r)
		r = receive(ctl, &remote.wire);
	return ctl_remote_end(&remote, r);
}

static int receive_file(struct ctl *ctl)
{
	struct rd_wire wire = { .in = STDIN_FILENO, .out = -1, .peer = "the stream" };
	char who;
	int r = ctl_wire(ctl, &wire);

	/* A program that makes the stream, or decrypts it, may take its time. */
	wire.patience = CTL_LOCK_WAIT_MAX;
	if (!r)
		r = rd_wire_begin(&wire, 'R', &who);
	if (!r && who != 'F') {
		r = rd_err(-EPROTO, "the stream is one end of a conversation, and of no use alone");
		rd_hint("nothing was changed; 'revdedupctl send' without --to makes one that is");
	}
	if (!r)
		r = receive(ctl, &wire);
	rd_wire_end(&wire);
	return r;
}

int cmd_receive(struct ctl *ctl)
{
	const char *from = ctl_value(ctl, CTL_OPT_FROM);
	int r = check_options(ctl, !from);

	if (!r)
		r = ctl_open(ctl, RD_POOL_WRITE);
	return r ? r : from ? receive_from(ctl, from) : receive_file(ctl);
}
