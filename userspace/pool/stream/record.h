/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stream of versions, byte by byte: what Documentation/stream.rst draws. Pure.
 *
 * Each direction begins with a preamble of 20 bytes:
 *
 *	 0  8  magic, "RDSTRM1\n", of which the digit is the format
 *	 8  1  who writes: 'F' a sender into a file, 'S' a sender, 'R' a receiver, 'N' who reads a
 *	       version by NBD
 *	 9  3  zeros
 *	12  4  features that a reader must know; there are none yet
 *	16  4  CRC-32C of the 16 bytes before
 *
 * Then records follow, each behind a head of 12 bytes:
 *
 *	 0  1  type, a letter: see enum rd_record_type
 *	 1  3  zeros
 *	 4  4  length of the payload, RD_RECORD_MAX at most
 *	 8  4  CRC-32C of the 8 bytes before, and the payload
 *
 * All numbers are little endian. A text ends with a zero byte. Blocks have 4 KiB, segments
 * 512 blocks; fingerprints are those of a pool (data/fp.h). A bit map of a segment has bit
 * s % 64 of word s / 64 for block s.
 */
#ifndef RD_RECORD_H
#define RD_RECORD_H

#include <endian.h>

#include "base/buffer.h"
#include "pool/data/fp.h"
#include "pool/data/pack.h"

#define RD_PREAMBLE		20
#define RD_RECORD_HEAD		12
#define RD_RECORD_MAX		(RD_SEG_SIZE + 4096)

enum rd_record_type {
	/* of both */
	RD_REC_KEEP = 'k',	/* nothing: the other side is alive */
	RD_REC_ERROR = 'e',	/* 0 text: why it ends, and, behind a newline, what to do */

	/* of who pulls, 'R' or 'N', first: 0 4 newest, 4 4 zeros, 8 texts: volumes and versions */
	RD_REC_REQUEST = 'Q',

	/* of a sender */
	RD_REC_VOLUME = 'V',	/* 0 text: its name; each is answered with HAS */
	RD_REC_OFFER = 'O',	/* a version, see struct rd_offer; answered with WANT or SKIP */
	RD_REC_VERSION = 'W',	/* what follows is the version that was offered: struct rd_begin */
	RD_REC_SEGMENTS = 'S',	/* struct rd_named each; answered with HAVE */
	RD_REC_BLOCKS = 'B',	/* of a segment that is lacking; answered with NEED */
	RD_REC_PROOF = 'P',	/* 0 8 segment, 8 32 hash */
	RD_REC_DATA = 'D',	/* content of blocks */
	RD_REC_END = 'E',	/* of the version; answered with DONE */
	RD_REC_BYE = 'y',	/* nothing: it has ended well */

	/* of a receiver */
	RD_REC_HAS = 'h',	/* struct rd_known each, the newest first, RD_HAS_MAX at most */
	RD_REC_WANT = 'w',	/* struct rd_want */
	RD_REC_SKIP = 's',	/* 0 text: why it does not take the version */
	RD_REC_HAVE = 'v',	/* a byte for each segment named: enum rd_have */
	RD_REC_NEED = 'n',	/* struct rd_need */
	RD_REC_DONE = 'd',	/* 0 8 the number that the version has there */
};

/* A record that was read. */
struct rd_record {
	u8 type;
	u32 len;
	const u8 *data;
};

void rd_preamble_put(u8 to[RD_PREAMBLE], char who);
/*
 * -EMEDIUMTYPE: it is none. -EBADMSG: damaged. -EPROTONOSUPPORT: the format is not known;
 * -EOPNOTSUPP: a feature is not.
 */
int rd_preamble_get(const u8 from[RD_PREAMBLE], char *ret_who);

/* Append a record. */
void rd_record_put(struct rd_buffer *to, enum rd_record_type type, const void *data, size_t len);
/* Read a head. -EBADMSG: it is none. */
int rd_record_head(const u8 from[RD_RECORD_HEAD], struct rd_record *ret);
/* Has the payload of @record, which stands behind its head, the right sum? */
bool rd_record_is_sound(const u8 *head, const struct rd_record *record);

/* --- payloads; each get returns 0, or -EBADMSG */

/* A version that one side has: 0 8 uid, 8 8 number, 16 16 pin. */
struct rd_known {
	i64 uid;
	i64 number;
	rd_sum pin;		/* struct rd_version, sum */
};

#define RD_KNOWN_SIZE	32
#define RD_HAS_MAX	16

void rd_known_put(struct rd_buffer *to, const struct rd_known *known);
void rd_known_get(const u8 *from, struct rd_known *ret);

/*
 *	 0 32  struct rd_known
 *	32  8  size in bytes
 *	40  8  time, seconds since 1970
 *	48  1  1: consistent, 0: it may have been written while it was read
 *	49  7  zeros
 *	56     texts: volume, comment, tags
 */
struct rd_offer {
	struct rd_known known;
	u64 size;
	i64 time;
	bool is_consistent;
	const char *volume, *comment;	/* within the payload */
	const char *tags;		/* behind the last one is another zero byte, not in it */
	size_t tags_len;
};

void rd_offer_put(struct rd_buffer *to, const struct rd_offer *offer);
int rd_offer_get(const struct rd_record *record, struct rd_offer *ret);

/*
 *	 0  1  1: only segments that differ from the base, 0: all that are not zeros
 *	 1  7  zeros
 *	 8  8  the first segment that is told
 *	16 32  struct rd_known of the base, or zeros
 */
struct rd_begin {
	bool is_delta;
	u64 from;
	struct rd_known base;
};

#define RD_BEGIN_SIZE	48

void rd_begin_put(struct rd_buffer *to, const struct rd_begin *begin);
int rd_begin_get(const struct rd_record *record, struct rd_begin *ret);

/*
 *	 0  8  the first segment that has not arrived
 *	 8 32  struct rd_known of the version before, or zeros
 *	40 32  random bytes for proofs
 */
#define RD_NONCE	32
#define RD_WANT_SIZE	72

struct rd_want {
	u64 from;
	struct rd_known base;
	u8 nonce[RD_NONCE];
};

void rd_want_put(struct rd_buffer *to, const struct rd_want *want);
int rd_want_get(const struct rd_record *record, struct rd_want *ret);

/* 0 8 segment, 8 32 its fingerprint; zeros: it is zeros */
#define RD_NAMED_SIZE	40

struct rd_named {
	u64 segment;
	struct rd_seg_fp fp;
};

void rd_named_put(struct rd_buffer *to, const struct rd_named *named);
void rd_named_get(const u8 *from, struct rd_named *ret);

enum rd_have {
	RD_HAVE_NOT,
	RD_HAVE,
	RD_HAVE_PROVE,		/* if the sender proves that it has it as well */
};

/*
 *	 0  8  segment
 *	 8 64  bit map: blocks that are not as in the base; or that are not zeros
 *	72     the fingerprint of each, 16 bytes
 */
struct rd_blocks_of {
	u64 segment;
	struct rd_slots slots;
	unsigned int nr;
	const u8 *fps;			/* in the payload: not aligned */
};

void rd_blocks_of_put(struct rd_buffer *to, u64 segment, const struct rd_slots *slots,
		      const struct rd_fp fps[RD_SEG_BLOCKS]);
int rd_blocks_of_get(const struct rd_record *record, struct rd_blocks_of *ret);

/*
 *	 0  8  segment
 *	 8 64  bit map: blocks whose content is to be sent
 *	72 64  bit map: blocks that are there if the sender proves that it has them
 */
#define RD_NEED_SIZE	136

struct rd_need {
	u64 segment;
	struct rd_slots need, prove;
};

void rd_need_put(struct rd_buffer *to, const struct rd_need *need);
int rd_need_get(const struct rd_record *record, struct rd_need *ret);

/*
 *	 0  8  segment
 *	 8 64  bit map: the blocks that follow, one behind the other
 *	72  1  0: as they are, 1: one frame of zstd, 2: the groups of a pack
 *	73  7  zeros
 *	80     their bytes
 *
 * The groups of a pack (data/pack.h) follow 32 numbers of 4 bytes, one for each:
 *
 *	 0  4  its length in bytes, and in the highest byte how it is stored
 */
#define RD_DATA_HEAD	80
#define RD_DATA_GROUPS	(4 * RD_PACK_GROUPS)

enum rd_data_codec {
	RD_DATA_RAW,
	RD_DATA_ZSTD,
	RD_DATA_PACK,
};

struct rd_data {
	u64 segment;
	u8 codec;
	struct dmr_pack_head head;	/* slots, and of a pack: length and codec of each group */
	const u8 *bytes;
	size_t len;
};

/* Write the head of DATA. */
void rd_data_head_put(u8 to[RD_DATA_HEAD], u64 segment, const struct rd_slots *slots, u8 codec);
/* Write what precedes the groups of a pack. */
void rd_data_groups_put(u8 to[RD_DATA_GROUPS], const struct dmr_pack_head *head);
int rd_data_get(const struct rd_record *record, struct rd_data *ret);

/*
 * 0 8 segment, 8 32 hash: the SHA-256 of the nonce of WANT, the segment as 8 bytes, the bit map
 * of the blocks that are proven, and their content.
 */
#define RD_PROOF_SIZE	40

/* A text that is all of @record, and ends there. NULL: it does not. */
const char *rd_text_get(const struct rd_record *record);

/* --- numbers */

static inline void rd_put_u32(u8 *to, u32 value)
{
	value = htole32(value);
	memcpy(to, &value, sizeof(value));
}

static inline void rd_put_u64(u8 *to, u64 value)
{
	value = htole64(value);
	memcpy(to, &value, sizeof(value));
}

static inline u32 rd_get_u32(const u8 *from)
{
	u32 value;

	memcpy(&value, from, sizeof(value));
	return le32toh(value);
}

static inline u64 rd_get_u64(const u8 *from)
{
	u64 value;

	memcpy(&value, from, sizeof(value));
	return le64toh(value);
}

#endif
