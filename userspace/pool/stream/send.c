// SPDX-License-Identifier: GPL-2.0
/* Which versions are sent, one after the other: see send.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "pool/engine/space/hold.h"
#include "sender.h"

/* --- versions */

/* All versions of a volume, oldest first. */
struct list {
	struct rd_buffer all;
	const struct rd_version *versions;
	size_t nr;
};

struct ask {
	i64 volume;
	struct list *list;
};

static int list_versions(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	RD_ROW struct rd_row *rows = NULL;
	struct ask *ask = ctx;
	struct rd_version version;
	int r;

	(void)resolver;
	ask->list->all.len = 0;
	r = rd_versions(pool->sql, &rows, ask->volume);
	while (!r && (r = rd_next_version(rows, &version)) > 0)
		r = rd_buffer_put(&ask->list->all, &version, sizeof(version));
	return r;
}

static int get_versions(struct rd_sender *sender, i64 volume, struct list *ret)
{
	struct ask ask = { .volume = volume, .list = ret };
	int r = rd_random_ask(sender->random, list_versions, &ask);

	ret->versions = (const struct rd_version *)ret->all.data;
	ret->nr = ret->all.len / sizeof(*ret->versions);
	return r;
}

static void describe(const struct rd_version *version, struct rd_known *ret)
{
	*ret = (struct rd_known){
		.uid = version->uid,
		.number = version->number,
		.pin = version->sum,
	};
}

/* Find the version that is @known. NULL: this pool has none that is the same. */
static const struct rd_version *find_known(const struct list *list, const struct rd_known *known)
{
	size_t i;

	for (i = 0; i < list->nr; i++)
		if (list->versions[i].uid == known->uid && list->versions[i].sum == known->pin)
			return &list->versions[i];
	return NULL;
}

/* --- which of them */

/* Which versions of @list are to be sent, of those above number @above: from *@ret on. */
static size_t choose(const struct rd_sender *sender, const struct rd_send_pick *pick,
		     const struct list *list, i64 above, size_t *ret)
{
	size_t first = 0, end = list->nr;

	while (first < end && (list->versions[first].number <= above ||
			       list->versions[first].number <= sender->options->base ||
			       (pick->number && list->versions[first].number != pick->number)))
		first++;
	if (pick->number)
		end = rd_min(end, first + 1);
	if (sender->options->newest && end - first > sender->options->newest)
		first = end - sender->options->newest;
	*ret = first;
	return end - first;
}

/* --- one version */

static int put_tags(struct rd_pool *pool, struct rd_resolver *resolver, void *ctx)
{
	RD_ROW struct rd_row *rows = NULL;
	struct rd_sender *sender = ctx;
	const char *tag;
	int r;

	(void)resolver;
	sender->payload.len = 0;
	r = rd_version_tags(pool->sql, &rows, &sender->disk.version);
	while (!r && (r = rd_next_tag(rows, &tag)) > 0)
		r = rd_buffer_put(&sender->payload, tag, strlen(tag) + 1);
	return r;
}

static int offer(struct rd_sender *sender, const struct rd_send_pick *pick)
{
	const struct rd_version *version = &sender->disk.version;
	struct rd_buffer tags = { 0 };
	struct rd_offer offer = {
		.size = version->size,
		.time = version->time,
		.is_consistent = version->is_consistent,
		.volume = pick->as,
		.comment = version->comment,
	};
	int r = rd_random_ask(sender->random, put_tags, sender);

	tags = sender->payload;
	sender->payload = (struct rd_buffer){ 0 };
	offer.tags = (const char *)tags.data;
	offer.tags_len = tags.len;
	describe(version, &offer.known);
	if (!r) {
		rd_offer_put(&sender->payload, &offer);
		r = rd_wire_put_buffer(sender->wire, RD_REC_OFFER, &sender->payload);
	}
	rd_buffer_free(&tags);
	return r;
}

static int put_begin(struct rd_sender *sender)
{
	struct rd_begin begin = {
		.is_delta = sender->base.version.id,
		.from = sender->want.from,
	};

	if (begin.is_delta)
		describe(&sender->base.version, &begin.base);
	rd_begin_put(&sender->payload, &begin);
	return rd_wire_put_buffer(sender->wire, RD_REC_VERSION, &sender->payload);
}

/* Answer WANT: all of the version that is wanted. */
static int serve_want(struct rd_sender *sender, const struct list *list)
{
	const struct rd_version *base;
	int r;

	do {
		base = find_known(list, &sender->want.base);
		memset(&sender->base, 0, sizeof(sender->base));
		sender->base.name = sender->disk.name;
		if (base && base->id != sender->disk.version.id)
			sender->base.version = *base;
		r = put_begin(sender);
		if (!r)
			r = rd_send_version(sender);
	} while (r == -ERESTART);
	return r;
}

/* The receiver may want it more than once: from where it had to stop. */
static int serve_wants(struct rd_sender *sender, const struct list *list)
{
	struct rd_record record;
	char why[RD_WIRE_TEXT];
	int r = 0;

	sender->is_asked_again = false;
	while (!r) {
		r = rd_wire_get(sender->wire, &record, true);
		if (r)
			return r;
		if (record.type == RD_REC_DONE) {
			sender->report->versions++;
			return 0;
		}
		if (record.type == RD_REC_SKIP) {
			rd_wire_safe(why, rd_text_get(&record));
			rd_warn("%s: not taken by %s: %.200s", sender->disk.name,
				sender->wire->peer, why);
			sender->report->skipped++;
			return 0;
		}
		if (record.type != RD_REC_WANT)
			return rd_wire_refuse(sender->wire, "an unexpected record");
		r = rd_send_take_want(sender, &record);
		if (!r)
			r = serve_want(sender, list);
		sender->is_asked_again = true;
	}
	return r;
}

/* Both stay, as long as they are read. Without a hold a deletion is an error of a read. */
static int hold(struct rd_sender *sender, const struct rd_version *version, i64 *ret)
{
	int r;

	*ret = 0;
	if (!version->id || !sender->pool->session)
		return 0;
	r = rd_hold_add(sender->pool, version, ret);
	return r == -EROFS ? 0 : r;
}

static void drop(struct rd_sender *sender, i64 hold)
{
	if (hold)
		rd_hold_drop(sender->pool, hold);
}

static void tell(struct rd_sender *sender, enum rd_send_event event,
		 const struct rd_send_pick *pick, const struct rd_version *version, u64 bytes)
{
	if (sender->options->tell)
		sender->options->tell(sender->options->ctx, event, pick, version, NULL, bytes);
}

/* Versions that were deleted have taken with them how much they had changed. */
static void tell_would(struct rd_sender *sender, const struct rd_send_pick *pick,
		       const struct list *list, const struct rd_version *version,
		       const struct rd_version *base)
{
	u64 blocks = 0;
	size_t i;

	for (i = 0; base && i < list->nr; i++)
		if (list->versions[i].number > base->number &&
		    list->versions[i].number <= version->number)
			blocks += list->versions[i].blocks_changed;
	sender->report->versions++;
	if (sender->options->tell)
		sender->options->tell(sender->options->ctx, RD_SEND_WOULD, pick, version, base,
				      base ? blocks * RD_BLOCK_SIZE : version->size);
}

/*
 * A segment that the receiver has as a whole counts as one, whatever changed in it. Where the
 * catalog knows how much that was, since the base is the version before, no more is there.
 */
static void bound_there(struct rd_sender *sender, const struct rd_send_report *before)
{
	const struct rd_version *version = &sender->disk.version, *base = &sender->base.version;
	u64 most = base->number + 1 == version->number ? version->blocks_changed :
		rd_round_up(version->size, RD_BLOCK_SIZE) / RD_BLOCK_SIZE;
	u64 sent = sender->report->blocks - before->blocks;
	u64 *there = &sender->report->blocks_there;

	most -= rd_min(most, sent);
	*there = before->blocks_there + rd_min(*there - before->blocks_there, most);
}

/* @base: of a file; or the newest that both have, which is held with it. */
static int send_one(struct rd_sender *sender, const struct rd_send_pick *pick,
		    const struct list *list, const struct rd_version *version,
		    const struct rd_version *base)
{
	struct rd_send_report before = *sender->report;
	u64 sent = sender->wire->sent;
	char *name = sender->name;
	i64 holds[2] = { 0 };
	int r;

	snprintf(name, sizeof(sender->name), "%s@%lld", pick->name, version->number);
	memset(&sender->base, 0, sizeof(sender->base));
	sender->disk = (struct rd_disk){ .version = *version, .name = name };
	sender->base.name = name;
	if (base)
		sender->base.version = *base;
	r = hold(sender, version, &holds[0]);
	if (!r) {
		r = hold(sender, &sender->base.version, &holds[1]);
		/* It was deleted just now: all is sent. */
		if (r == -ENOENT) {
			sender->base.version.id = 0;
			r = 0;
		}
	}
	if (r == -ENOENT)
		return rd_err(-ENOENT, "%s was deleted", name);
	/* Nothing was said of it yet, so others can follow. */
	if (!r && rd_random_prove(sender->random, &sender->disk))
		r = -ENOENT;
	if (r == -ENOENT) {
		drop(sender, holds[0]);
		drop(sender, holds[1]);
		return r;
	}
	tell(sender, RD_SEND_BEGINS, pick, version, 0);
	if (!r)
		r = offer(sender, pick);
	if (!r && sender->is_file) {
		memset(&sender->want, 0, sizeof(sender->want));
		r = put_begin(sender);
		if (!r)
			r = rd_send_version(sender);
		sender->report->versions += !r;
	} else if (!r) {
		r = rd_wire_flush(sender->wire);
		if (!r)
			r = serve_wants(sender, list);
	}
	if (!r)
		r = rd_wire_flush(sender->wire);
	bound_there(sender, &before);
	if (!r && sender->report->versions > before.versions)
		tell(sender, RD_SEND_DONE, pick, version, sender->wire->sent - sent);
	drop(sender, holds[0]);
	drop(sender, holds[1]);
	return r;
}

/* Send what is chosen of those above @base, or of all: each builds on the one before. */
static int send_chosen(struct rd_sender *sender, const struct rd_send_pick *pick,
		       const struct list *list, const struct rd_version *base, size_t *ret_nr)
{
	size_t i, first, nr = choose(sender, pick, list, base ? base->number : 0, &first);
	int r = 0;

	*ret_nr = nr;
	for (i = first; i < first + nr && !r; i++) {
		if (sender->options->dry_run)
			tell_would(sender, pick, list, &list->versions[i], base);
		else
			r = send_one(sender, pick, list, &list->versions[i], base);
		base = &list->versions[i];
	}
	return r;
}

/* --- two ways */

static int refuse_stranger(const struct rd_sender *sender, const struct rd_send_pick *pick)
{
	rd_err(0, "%s has a volume '%s', and no version of it that this pool has",
	       sender->wire->peer, pick->as);
	rd_remedy(sender->options->serves ? RD_REMEDY_RECEIVE_AS : RD_REMEDY_SEND_AS, NULL,
		  "nothing was sent of it");
	return -EEXIST;
}

/* Tell which of the versions that are meant the receiver has, the newest first. */
static void tell_there(struct rd_sender *sender, const struct rd_send_pick *pick,
		       const struct list *list, const struct rd_known *known, size_t nr_known)
{
	const struct rd_version *version;
	size_t i;

	for (i = 0; i < nr_known; i++) {
		version = find_known(list, &known[i]);
		if (version && (!pick->number || pick->number == version->number))
			tell(sender, RD_SEND_THERE, pick, version, 0);
	}
}

/* Has the receiver the one version that is named? */
static bool is_there(const struct rd_send_pick *pick, const struct list *list,
		     const struct rd_known *known, size_t nr_known)
{
	const struct rd_version *version;
	size_t i;

	for (i = 0; i < nr_known; i++) {
		version = find_known(list, &known[i]);
		if (version && version->number == pick->number)
			return true;
	}
	return false;
}

/* That version is older than one that both have. */
static int refuse_older(struct rd_sender *sender, const struct rd_send_pick *pick)
{
	rd_err(0, "%s@%lld is not sent: %s has a newer version, and takes only newer ones",
	       pick->name, pick->number, sender->wire->peer);
	sender->report->skipped++;
	return sender->options->serves ? -EEXIST : 0;
}

static int send_volume(struct rd_sender *sender, const struct rd_send_pick *pick,
		       const struct rd_known *known, size_t nr_known)
{
	const struct rd_version *common = NULL;
	bool dry = sender->options->dry_run;
	struct list list = { 0 };
	size_t i, nr = 0;
	int r = get_versions(sender, pick->volume, &list);

	for (i = 0; i < nr_known && !common; i++)
		common = find_known(&list, &known[i]);
	if (!r && nr_known && !common && !sender->options->force)
		r = refuse_stranger(sender, pick);
	if (!r && dry)
		tell_there(sender, pick, &list, known, nr_known);
	if (!r)
		r = send_chosen(sender, pick, &list, common, &nr);
	if (!r && !nr && common && !dry)
		tell(sender, RD_SEND_THERE, pick, common, 0);
	if (!r && !nr && common && pick->number && !is_there(pick, &list, known, nr_known))
		r = refuse_older(sender, pick);
	else
		sender->report->there += !r && !nr;
	rd_buffer_free(&list.all);
	return r;
}

/* What the receiver has of each volume is asked for all of them at once. */
static int ask_for_all(struct rd_sender *sender)
{
	size_t i;
	int r = 0;

	for (i = 0; i < sender->options->nr && !r; i++)
		r = rd_wire_put(sender->wire, RD_REC_VOLUME, sender->options->picks[i].as,
				strlen(sender->options->picks[i].as) + 1);
	return r ? r : rd_wire_flush(sender->wire);
}

struct known_of {
	struct rd_known known[RD_HAS_MAX];
	size_t nr;
};

static int take_known(struct rd_sender *sender, struct known_of *ret)
{
	struct rd_record record;
	int r = rd_wire_expect(sender->wire, RD_REC_HAS, &record);

	if (r)
		return r;
	ret->nr = record.len / RD_KNOWN_SIZE;
	if (record.len % RD_KNOWN_SIZE || ret->nr > RD_HAS_MAX)
		return rd_wire_refuse(sender->wire, "versions that cannot be read");
	for (size_t i = 0; i < ret->nr; i++)
		rd_known_get(record.data + i * RD_KNOWN_SIZE, &ret->known[i]);
	return 0;
}

static int send_all(struct rd_sender *sender)
{
	size_t i, nr = sender->options->nr;
	struct known_of *known = calloc(nr + 1, sizeof(*known));
	int r = known ? ask_for_all(sender) : -ENOMEM, first = 0;

	for (i = 0; i < nr && !r; i++)
		r = take_known(sender, &known[i]);
	for (i = 0; i < nr && !r; i++) {
		r = send_volume(sender, &sender->options->picks[i], known[i].known, known[i].nr);
		/* Others are sent nevertheless. */
		if (r == -EEXIST || r == -ENOENT) {
			first = first ? first : r;
			r = 0;
		}
	}
	free(known);
	/* BYE says that all is there: the caller tells the receiver why it is not. */
	r = r ? r : first;
	if (!r)
		r = rd_wire_put(sender->wire, RD_REC_BYE, NULL, 0);
	return r ? r : rd_wire_flush(sender->wire);
}

/* --- into a file */

static int file_volume(struct rd_sender *sender, const struct rd_send_pick *pick)
{
	const struct rd_version *base = NULL;
	struct list list = { 0 };
	size_t i, nr;
	int r = get_versions(sender, pick->volume, &list);

	for (i = 0; i < list.nr && !base; i++)
		if (list.versions[i].number == sender->options->base)
			base = &list.versions[i];
	if (!r)
		r = send_chosen(sender, pick, &list, base, &nr);
	rd_buffer_free(&list.all);
	return r;
}

static int write_all(struct rd_sender *sender)
{
	size_t i;
	int r = 0;

	for (i = 0; i < sender->options->nr && !r; i++)
		r = file_volume(sender, &sender->options->picks[i]);
	if (!r)
		r = rd_wire_put(sender->wire, RD_REC_BYE, NULL, 0);
	return r ? r : rd_wire_flush(sender->wire);
}

/* --- */

static int run(struct rd_pool *pool, struct rd_wire *wire, const struct rd_send_options *options,
	       struct rd_send_report *report, bool is_file)
{
	struct rd_sender *sender = calloc(1, sizeof(*sender));
	int r;

	memset(report, 0, sizeof(*report));
	if (!sender)
		return -ENOMEM;
	sender->pool = pool;
	sender->wire = wire;
	sender->options = options;
	sender->report = report;
	sender->is_file = is_file;
	r = rd_send_data_new(sender);
	if (!r)
		r = is_file ? write_all(sender) : send_all(sender);
	rd_send_data_free(sender);
	rd_buffer_free(&sender->payload);
	free(sender);
	return r;
}

int rd_send(struct rd_pool *pool, struct rd_wire *wire, const struct rd_send_options *options,
	    struct rd_send_report *report)
{
	return run(pool, wire, options, report, false);
}

int rd_send_file(struct rd_pool *pool, struct rd_wire *wire,
		 const struct rd_send_options *options, struct rd_send_report *report)
{
	return run(pool, wire, options, report, true);
}
