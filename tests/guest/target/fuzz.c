// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz ROUNDS SEED: garbage for the target, in table lines and messages.
 *
 * A model of the volume, written from the documentation and not from the
 * kernel's code, says of each message whether it is right, with which error a
 * wrong one is refused, and what a right one changes or answers. After each
 * batch the volume must be what the model is, and the metadata device must not
 * have changed at all unless a right message changed something.
 *
 * It wants, made by fuzz.bats:
 *   /dev/mapper/rdt-v	a volume of NR_SEGS segments on BASE and META, formatted
 *			and never used
 *   rdt-t		a device without a table, for table lines on BASE and
 *   META2		a formatted metadata device with TEST_UUID for its volume
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/dmreq.h"

#define VOL		"rdt-v"
#define VOL_PATH	"/dev/mapper/rdt-v"
#define TABLES		"rdt-t"
#define BASE		"/dev/ram0"
#define META		"/dev/mapper/rdt-m"
#define META2		"/dev/mapper/rdt-m2"
#define TEST_UUID	"11111111-2222-3333-4444-555555555555"

#define NR_SEGS		32
#define SEG_BYTES	2097152U
#define VOL_SECTORS	(NR_SEGS * 4096ULL)
#define META_BYTES	1048576U
#define BATCH		50
#define MAX_TEXT	262144U
#define MAX_WORDS	64

/*
 * ---- Chance ----
 */

static uint64_t rng_state;

/* xorshift64*: the same on every machine for the same seed. */
static uint64_t rnd(void)
{
	rng_state ^= rng_state >> 12;
	rng_state ^= rng_state << 25;
	rng_state ^= rng_state >> 27;
	return rng_state * 0x2545f4914f6cdd1dULL;
}

static unsigned int below(unsigned int n)
{
	return (rnd() >> 32) % n;
}

static bool one_in(unsigned int n)
{
	return !below(n);
}

#define pick(array) ((array)[below(sizeof(array) / sizeof((array)[0]))])

/*
 * ---- Text ----
 */

struct text {
	size_t len;
	char s[MAX_TEXT];
};

static void add(struct text *t, const char *s)
{
	size_t len = strlen(s);

	if (t->len + len >= sizeof(t->s))
		return;
	memcpy(t->s + t->len, s, len + 1);
	t->len += len;
}

__attribute__((format(printf, 2, 3)))
static void addf(struct text *t, const char *format, ...)
{
	char buf[512];
	va_list args;

	va_start(args, format);
	vsnprintf(buf, sizeof(buf), format, args);
	va_end(args);
	add(t, buf);
}

static void clear(struct text *t)
{
	t->len = 0;
	t->s[0] = 0;
}

/* Never a zero byte, which would end the text. */
static char any_byte(void)
{
	static const char likely[] = " \t\n\\;,:-+.0123456789abcdefxABCDEFX@\"'%$#~\x7f\xff\xa0";

	return one_in(3) ? (char)(1 + below(255)) : likely[below(sizeof(likely) - 1)];
}

/* The words of @text as device-mapper takes them apart: -1 for too many. */
static int split(char *text, char **words)
{
	char *in = text, *out;
	int nr = 0;

	for (;;) {
		/* The kernel's isspace() knows 0xa0. */
		while (*in && (isspace((unsigned char)*in) || *in == '\xa0'))
			in++;
		if (!*in)
			return nr;
		if (nr == MAX_WORDS)
			return -1;
		out = in;
		words[nr++] = out;
		while (*in && !isspace((unsigned char)*in) && *in != '\xa0') {
			if (*in == '\\' && in[1])
				in++;
			*out++ = *in++;
		}
		if (*in)
			in++;
		*out = 0;
	}
}

static bool is_decimal(const char *s, uint64_t *ret)
{
	char *end;

	if (!*s || s[strspn(s, "0123456789")])
		return false;
	errno = 0;
	*ret = strtoull(s, &end, 10);
	return !errno;
}

/* "first,len;first,len": the segments, or false for anything else. */
static bool parse_ranges(const char *s, bool *segs)
{
	static const char hex[] = "0123456789abcdef";

	memset(segs, 0, NR_SEGS);
	for (;;) {
		size_t n1 = strspn(s, hex), n2;
		uint64_t first, len;

		if (!n1 || n1 > 16 || s[n1] != ',')
			return false;
		first = strtoull(s, NULL, 16);
		s += n1 + 1;
		n2 = strspn(s, hex);
		if (!n2 || n2 > 16)
			return false;
		len = strtoull(s, NULL, 16);
		s += n2;
		if (!len || first >= NR_SEGS || len > NR_SEGS - first)
			return false;
		memset(segs + first, 1, len);
		if (!*s)
			return true;
		if (*s++ != ';')
			return false;
	}
}

/*
 * ---- The model ----
 */

static struct {
	uint64_t epoch;
	uint64_t committed;
	uint64_t version;
	bool waits;			/* a checkpoint is neither committed nor aborted */
	bool suspended;
	bool fresh;			/* no resume since the checkpoint */
	bool current[NR_SEGS];
	bool frozen[NR_SEGS];

	bool may_write;			/* something changed in this batch */
} model;

static unsigned int nr_right, nr_wrong, nr_batches;

static unsigned int count(const bool *segs)
{
	unsigned int i, n = 0;

	for (i = 0; i < NR_SEGS; i++)
		n += segs[i];
	return n;
}

static void merge(bool *to, const bool *from)
{
	unsigned int i;

	for (i = 0; i < NR_SEGS; i++)
		to[i] |= from[i];
}

static void take_back(void)
{
	merge(model.current, model.frozen);
	memset(model.frozen, 0, sizeof(model.frozen));
	model.waits = false;
}

static int model_checkpoint(char **arg)
{
	uint64_t epoch;

	if (!is_decimal(arg[0], &epoch))
		return -EINVAL;
	if (model.fresh && model.waits && epoch == model.epoch)
		return 0;
	if (!model.suspended)
		return -EBUSY;
	if (epoch != model.epoch + 1)
		return -EINVAL;
	take_back();
	memcpy(model.frozen, model.current, sizeof(model.frozen));
	memset(model.current, 0, sizeof(model.current));
	model.epoch = epoch;
	model.waits = true;
	model.fresh = true;
	model.may_write = true;
	return 0;
}

static int model_commit(char **arg)
{
	uint64_t epoch, version;

	if (!is_decimal(arg[0], &epoch) || !is_decimal(arg[1], &version) ||
	    epoch != model.epoch)
		return -EINVAL;
	if (!model.waits)
		return epoch && model.committed == epoch &&
		       model.version == version ? 0 : -EINVAL;
	model.committed = epoch;
	model.version = version;
	model.waits = false;
	memset(model.frozen, 0, sizeof(model.frozen));
	model.may_write = true;
	return 0;
}

static int model_abort(char **arg)
{
	uint64_t epoch;

	if (!is_decimal(arg[0], &epoch) || epoch != model.epoch)
		return -EINVAL;
	if (!model.waits)
		return epoch && model.committed != epoch ? 0 : -EINVAL;
	take_back();
	model.may_write = true;
	return 0;
}

static int model_mark(char **arg)
{
	bool segs[NR_SEGS];

	if (!parse_ranges(arg[0], segs))
		return -EINVAL;
	merge(model.current, segs);
	model.may_write = true;
	return 0;
}

static int model_lost_noted(char **arg)
{
	(void)arg;
	return 0;
}

static struct text reply;	/* what the last right message must answer */

static void tell_ranges(const bool *segs, uint64_t first, uint64_t end)
{
	uint64_t i, begin;

	for (i = first; i < end; i++) {
		if (!segs[i])
			continue;
		for (begin = i; i < end && segs[i]; )
			i++;
		addf(&reply, "%s%llx,%llx", reply.len ? ";" : "",
		     (unsigned long long)begin, (unsigned long long)(i - begin));
	}
	addf(&reply, "%s %llu", reply.len ? "" : "-", (unsigned long long)end);
}

static int model_dirty(char **arg)
{
	bool frozen = !strcasecmp(arg[0], "frozen");
	uint64_t first, nr;

	if (!frozen && strcasecmp(arg[0], "current"))
		return -EINVAL;
	if (frozen && !model.waits)
		return -ENODATA;
	if (!is_decimal(arg[1], &first) || !is_decimal(arg[2], &nr) || first > NR_SEGS)
		return -EINVAL;
	if (nr > NR_SEGS - first)
		nr = NR_SEGS - first;
	tell_ranges(frozen ? model.frozen : model.current, first, first + nr);
	return 0;
}

static const struct verb {
	const char *name;
	int nr_args;
	int (*model)(char **arg);
} verbs[] = {
	{ "checkpoint", 1, model_checkpoint },
	{ "commit", 2, model_commit },
	{ "abort", 1, model_abort },
	{ "dirty", 3, model_dirty },
	{ "mark", 1, model_mark },
	{ "lost-noted", 0, model_lost_noted },
};

/* What comes of the message @text; a right one changes the model. */
static int model_message(const char *text)
{
	static char copy[MAX_TEXT];
	char *words[MAX_WORDS];
	size_t i;
	int nr;

	clear(&reply);
	snprintf(copy, sizeof(copy), "%s", text);
	nr = split(copy, words);
	if (!nr)
		return -EINVAL;
	for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (!strcasecmp(words[0], verbs[i].name))
			return nr - 1 == verbs[i].nr_args ?
				verbs[i].model(words + 1) : -EINVAL;
	}
	return -EINVAL;
}

/*
 * ---- Garbage ----
 */

static void add_number(struct text *t)
{
	static const char *const odd[] = {
		"", "-1", "+1", " 1", "0x10", "01", "007", "1.0", "1e3", "1k",
		"4294967295", "4294967296", "9223372036854775807",
		"9223372036854775808", "18446744073709551615",
		"18446744073709551616", "99999999999999999999999999999999",
		"0000000000000000000000000000000000000000000001", "NaN", "-",
	};

	switch (below(5)) {
	case 0:
		add(t, pick(odd));
		break;
	case 1:
		addf(t, "%llu", (unsigned long long)rnd());
		break;
	default:
		/* Around the numbers that are right now. */
		addf(t, "%lld", (long long)(model.epoch + below(4)) - 1);
	}
}

static void add_ranges(struct text *t)
{
	unsigned int n = one_in(8) ? below(20000) : 1 + below(6);
	const char *format = one_in(30) ? "0x%x,%x" : one_in(30) ? "%X,%X" : "%x,%x";

	while (n--) {
		unsigned int first = below(NR_SEGS), len = 1 + below(NR_SEGS - first);

		if (one_in(2000))
			len = 0;
		if (one_in(2000))
			first += NR_SEGS;
		addf(t, format, first, len);
		if (n)
			add(t, one_in(5000) ? ";;" : ";");
	}
	if (one_in(30))
		add(t, ";");
	if (one_in(30))
		add(t, "0,ffffffffffffffff");
}

static void add_message(struct text *t)
{
	static const char *const sets[] = { "current", "frozen", "CURRENT", "all" };

	switch (below(8)) {
	case 0:
		add(t, "checkpoint ");
		add_number(t);
		break;
	case 1:
		add(t, "commit ");
		add_number(t);
		add(t, " ");
		add_number(t);
		break;
	case 2:
		add(t, "abort ");
		add_number(t);
		break;
	case 3:
	case 4:
		addf(t, "dirty %s ", pick(sets));
		if (one_in(3))
			add_number(t);
		else
			addf(t, "%u", below(NR_SEGS + 2));
		add(t, " ");
		if (one_in(3))
			add_number(t);
		else
			addf(t, "%u", below(NR_SEGS + 2));
		break;
	case 5:
	case 6:
		add(t, "mark ");
		add_ranges(t);
		break;
	default:
		add(t, "lost-noted");
	}
}

static void add_table(struct text *t)
{
	static const char *const opts[] = {
		"", " 0", " 2 volume_uuid " TEST_UUID, " 2 VOLUME_UUID " TEST_UUID,
		" 2 pool_uuid " TEST_UUID,
		" 4 pool_uuid " TEST_UUID " volume_uuid " TEST_UUID,
		" 4 volume_uuid " TEST_UUID " volume_uuid " TEST_UUID,
		" 2 volume_uuid 11111111-2222-3333-4444-555555555556",
		" 2 volume_uuid 00000000-0000-0000-0000-000000000000",
		" 2 pool_uuid abcdefab-CDEF-abcd-efab-cdefabcdefab",
		" 2 pool_uuid abcdefab-cdef-abcd-efab-cdefabcdefag",
		" 2 pool_uuid abcdefabacdef-abcd-efab-cdefabcdefab",
		" 1 volume_uuid", " 3 volume_uuid " TEST_UUID " x", " 2 x y",
		" 4294967298 volume_uuid " TEST_UUID, " -2", " 1", " 2 hydrate on",
	};
	static const char *const bases[] = { BASE, BASE, BASE, BASE, "-", META2 };
	static const char *const metas[] = { META2, META2, META2, META2, BASE, META, "-" };
	static const char *const pools[] = { "-", "-", "-", "-", "-", BASE, META2, "--" };

	addf(t, "%s %s %s%s", pick(bases), pick(metas), pick(pools), pick(opts));
}

static void insert(struct text *t, size_t at, const char *s, size_t len)
{
	if (t->len + len >= sizeof(t->s))
		return;
	memmove(t->s + at + len, t->s + at, t->len - at + 1);
	memcpy(t->s + at, s, len);
	t->len += len;
}

static void delete(struct text *t, size_t at, size_t len)
{
	if (len > t->len - at)
		len = t->len - at;
	memmove(t->s + at, t->s + at + len, t->len - at - len + 1);
	t->len -= len;
}

static void mutate_once(struct text *t)
{
	static char long_word[8192];
	size_t at = t->len ? below(t->len) : 0;
	char c = any_byte();
	size_t len;

	switch (below(8)) {
	case 0:
		insert(t, at, &c, 1);
		break;
	case 1:
		if (t->len)
			t->s[at] = c;
		break;
	case 2:
		delete(t, at, 1 + below(4));
		break;
	case 3:
		delete(t, at, t->len);
		break;
	case 4:			/* a word more */
		insert(t, at, " x ", 1 + below(3));
		break;
	case 5:			/* a long one */
		len = one_in(4) ? below(sizeof(long_word)) : below(100);
		memset(long_word, any_byte(), len);
		insert(t, at, long_word, len);
		break;
	case 6:			/* a piece twice */
		len = below(t->len - at + 1);
		if (len > sizeof(long_word))
			len = sizeof(long_word);
		memcpy(long_word, t->s + at, len);
		insert(t, at, long_word, len);
		break;
	default:
		for (len = below(one_in(50) ? 5000 : 40); len; len--) {
			c = any_byte();
			insert(t, at, &c, 1);
		}
	}
}

static void mutate(struct text *t)
{
	if (one_in(20)) {
		/* Nothing but noise. */
		clear(t);
		mutate_once(t);
	}
	while (!one_in(3))
		mutate_once(t);
}

/*
 * ---- The volume ----
 */

__attribute__((format(printf, 2, 3), noreturn))
static void die(const char *text, const char *format, ...)
{
	va_list args;

	printf("FAILED: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	if (text)
		printf("text (%zu bytes): %.2000s\n", strlen(text), text);
	exit(1);
}

static uint64_t meta_hash(void)
{
	static char *buf;
	int fd = open(META, O_RDONLY | O_DIRECT);
	uint64_t hash = 0xcbf29ce484222325ULL;
	size_t i;

	if (!buf)
		buf = aligned_alloc(4096, META_BYTES);
	if (fd < 0 || !buf || read(fd, buf, META_BYTES) != META_BYTES)
		err(1, META);
	close(fd);
	for (i = 0; i < META_BYTES; i += 8)
		hash = (hash ^ *(uint64_t *)(buf + i)) * 0x100000001b3ULL;
	return hash;
}

static void check_status(void)
{
	const struct dm_target_spec *spec;
	char waits[32] = "-", want[256];
	struct dmreq rq;

	dmreq_begin(&rq, VOL);
	spec = dmreq_send(&rq, DM_TABLE_STATUS, 4096) ? NULL : dmreq_target(&rq, 0);
	if (!spec)
		die(NULL, "no status");
	if (model.waits)
		snprintf(waits, sizeof(waits), "%llu", (unsigned long long)model.epoch);
	snprintf(want, sizeof(want), "1 %llu %s %llu %u/%u %u 0 0 0 ok rw off 0 0 0 0",
		 (unsigned long long)model.epoch, waits,
		 (unsigned long long)model.version, count(model.current), NR_SEGS,
		 NR_SEGS * 512);
	if (strcmp((const char *)(spec + 1), want))
		die(NULL, "status is '%s', must be '%s'", (const char *)(spec + 1), want);
}

/* Send what the model has an opinion on, and compare. */
static void send_message(const char *text)
{
	int want = model_message(text), got;
	const char *answer;
	struct dmreq rq;

	dmreq_begin(&rq, VOL);
	if (dmreq_set_message(&rq, 0, text, strlen(text) + 1))
		die(text, "too long");
	got = dmreq_send(&rq, DM_TARGET_MSG, DMREQ_MAX / 2);
	if (got != want)
		die(text, "the message's result is %d (%s), must be %d (%s)", got,
		    strerror(-got), want, strerror(-want));
	if (got) {
		nr_wrong++;
		return;
	}
	nr_right++;
	answer = dmreq_text(&rq);
	if (strcmp(answer ? answer : "", reply.s))
		die(text, "the answer is '%.200s', must be '%.200s'",
		    answer ? answer : "", reply.s);
}

static void check_dirty(void)
{
	send_message("dirty current 0 32");
	send_message("dirty frozen 0 32");
}

/*
 * ---- Table lines ----
 */

/* Does @s name some device? Numbers and labels can mean one, too. */
static bool may_name_device(const char *s)
{
	struct stat st;

	return !s[strspn(s, " 0123456789abcdefABCDEFxX:")] || strchr(s, '=') ||
	       (!stat(s, &st) && S_ISBLK(st.st_mode));
}

/* 1 or 0: the kernel must take it for @device or must not; -1: who knows. */
static int names_device(const char *s, const char *device)
{
	if (!strcmp(s, device))
		return 1;
	return may_name_device(s) ? -1 : 0;
}

/* The same of a pool: none is right, and neither of the other two devices is. */
static int names_pool(const char *s, const char *base, const char *meta)
{
	if (!strcmp(s, "-"))
		return 1;
	if (!strcmp(s, base) || !strcmp(s, meta))
		return 0;
	return may_name_device(s) ? -1 : 0;
}

static bool is_uuid(const char *s)
{
	unsigned int i;
	bool zero = true;

	if (strlen(s) != 36)
		return false;
	for (i = 0; i < 36; i++) {
		if (i == 8 || i == 13 || i == 18 || i == 23) {
			if (s[i] != '-')
				return false;
		} else {
			if (!isxdigit((unsigned char)s[i]))
				return false;
			zero = zero && s[i] == '0';
		}
	}
	return !zero;
}

static bool right_opts(char **opt, int nr)
{
	const char *volume = NULL, *pool = NULL;
	unsigned int nr_said;
	char dummy;
	int i;

	if (!nr)
		return true;
	/* As dm_read_arg_group() reads it, but that takes no sign. */
	if (strpbrk(opt[0], "+-"))
		return false;
	if (sscanf(opt[0], "%u%c", &nr_said, &dummy) != 1 ||
	    nr_said != (unsigned int)(nr - 1) || nr - 1 > 4 || (nr - 1) % 2)
		return false;
	for (i = 1; i < nr; i += 2) {
		const char **known = !strcasecmp(opt[i], "volume_uuid") ? &volume :
				     !strcasecmp(opt[i], "pool_uuid") ? &pool : NULL;

		if (!known || *known || !is_uuid(opt[i + 1]))
			return false;
		*known = opt[i + 1];
	}
	return !volume || !strcasecmp(volume, TEST_UUID);
}

/* 1: right, 0: wrong, -1: not to be tried. */
static int model_table(const char *text)
{
	static char copy[MAX_TEXT];
	char *words[MAX_WORDS];
	int nr, base, meta, pool;

	snprintf(copy, sizeof(copy), "%s", text);
	nr = split(copy, words);
	if (nr < 3)
		return nr < 0 ? -1 : 0;
	base = names_device(words[0], BASE);
	meta = names_device(words[1], META2);
	/* The one of rdt-v is taken, and base and metadata must be two. */
	if (!strcmp(words[1], META) || !strcmp(words[0], words[1]))
		return 0;
	pool = names_pool(words[2], words[0], words[1]);
	if (base < 0 || meta < 0 || pool < 0)
		return -1;
	return base && meta && pool && right_opts(words + 3, nr - 3);
}

static void try_table(struct text *t)
{
	static const uint64_t sizes[] = { 1, VOL_SECTORS, VOL_SECTORS - 1, 1ULL << 40,
					  1ULL << 62, 0 };
	uint64_t size = one_in(3) ? pick(sizes) : VOL_SECTORS;
	bool two = one_in(50);
	struct dmreq rq;
	int want, got, r;

	want = model_table(t->s);
	if (want < 0)
		return;
	if (!size || size > VOL_SECTORS || two)
		want = 0;
	dmreq_begin(&rq, TABLES);
	if (dmreq_add_target(&rq, 0, size, "revdedup", t->s) ||
	    (two && dmreq_add_target(&rq, size, 8, "revdedup", t->s)))
		return;
	r = dmreq_send(&rq, DM_TABLE_LOAD, 1);
	got = !r;
	if (got != want)
		die(t->s, "a table line of %llu sectors%s: result %d (%s), must %s",
		    (unsigned long long)size, two ? ", twice" : "", r,
		    strerror(-r), want ? "succeed" : "fail");
	if (got)
		nr_right++;
	else
		nr_wrong++;
	if (got && one_in(2) && dmreq_simple(TABLES, DM_TABLE_CLEAR, 0))
		die(t->s, "cannot clear the table");
}

/*
 * ---- What happens meanwhile ----
 */

static void write_segment(void)
{
	static char *buf;
	unsigned int seg = below(NR_SEGS);
	int fd = open(VOL_PATH, O_WRONLY | O_DIRECT);

	if (!buf)
		buf = aligned_alloc(4096, 4096);
	if (fd < 0 || !buf ||
	    pwrite(fd, buf, 4096, (off_t)seg * SEG_BYTES) != 4096)
		err(1, VOL_PATH);
	close(fd);
	if (!model.current[seg])
		model.may_write = true;
	model.current[seg] = true;
}

static void reload(void)
{
	struct dmreq rq;

	dmreq_begin(&rq, VOL);
	if (dmreq_add_target(&rq, 0, VOL_SECTORS, "revdedup", BASE " " META " -") ||
	    dmreq_send(&rq, DM_TABLE_LOAD, 1))
		die(NULL, "cannot reload");
}

static void resume(void)
{
	if (dmreq_simple(VOL, DM_DEV_SUSPEND, 0))
		die(NULL, "cannot resume");
	model.suspended = false;
	model.fresh = false;
}

static void some_event(void)
{
	switch (below(4)) {
	case 0:
		reload();
		/* It may stay in its slot. */
		if (one_in(2))
			resume();
		break;
	case 1:
		resume();
		break;
	case 2:
		if (dmreq_simple(VOL, DM_DEV_SUSPEND, DM_SUSPEND_FLAG |
				 (one_in(2) ? DM_NOFLUSH_FLAG : 0)))
			die(NULL, "cannot suspend");
		model.suspended = true;
		break;
	default:
		if (!model.suspended)
			write_segment();
	}
}

static void one_round(void)
{
	static struct text t;

	clear(&t);
	if (one_in(8)) {
		some_event();
	} else if (one_in(3)) {
		add_table(&t);
		if (!one_in(4))
			mutate(&t);
		try_table(&t);
	} else {
		add_message(&t);
		if (!one_in(3))
			mutate(&t);
		/* Those with an @ are for device-mapper itself. */
		if (!strchr(t.s, '@'))
			send_message(t.s);
	}
}

static void batch(unsigned long rounds)
{
	uint64_t before = meta_hash();

	model.may_write = false;
	while (rounds--)
		one_round();
	check_status();
	check_dirty();
	if (!model.may_write && meta_hash() != before)
		die(NULL, "the metadata changed, and no message or write should do that");
	nr_batches++;
}

/* What a new volume is, or what is left of it by one who came before us. */
static void learn(void)
{
	memset(&model, 0, sizeof(model));
	memset(model.current, 1, sizeof(model.current));
	check_status();
	check_dirty();
}

int main(int argc, char **argv)
{
	unsigned long rounds, left;

	if (argc != 3)
		errx(2, "usage: fuzz ROUNDS SEED");
	rounds = strtoul(argv[1], NULL, 0);
	rng_state = strtoull(argv[2], NULL, 0) * 2 + 1;
	printf("fuzz: %lu rounds, seed %s\n", rounds, argv[2]);
	dmreq_open();
	learn();
	for (left = rounds; left; ) {
		unsigned long n = left < BATCH ? left : BATCH;

		batch(n);
		left -= n;
	}
	resume();
	/* For whoever looks at the volume after us. */
	printf("fuzz: %u messages and tables refused, %u taken, %u batches\n",
	       nr_wrong, nr_right, nr_batches);
	printf("final: %llu %u %u\n", (unsigned long long)model.epoch,
	       count(model.current), model.waits ? count(model.frozen) : 0);
	return 0;
}
