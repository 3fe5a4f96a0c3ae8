// SPDX-License-Identifier: GPL-2.0
/* Packs, of which a device has only the beginning, where a part of them is about to be freed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "pool/engine/space/doomed.h"

#define FIRST_SLOT	500

static struct rd_area area;
static u64 head;		/* where the pack begins, in frame 0 */
static unsigned int nr;		/* blocks that it has, most of them in frame 1 */

static int set_up(void **state)
{
	static u8 data[RD_SEG_SIZE], pack[RD_PACK_MAX];
	struct rd_packer *packer = rd_packer_new();
	struct dmr_pack_head pack_head;
	size_t i, len;

	(void)state;
	/* Half of it is noise. */
	for (i = 0; i < sizeof(data); i++)
		data[i] = i / RD_PACK_GROUP_SIZE % 2 ? (u8)rand() : 7;
	memset(area.super.uuid, 5, sizeof(area.super.uuid));
	memset(&pack_head, 0, sizeof(pack_head));
	memcpy(pack_head.uuid, area.super.uuid, sizeof(pack_head.uuid));
	memset(pack_head.slots, 0xff, sizeof(pack_head.slots));
	pack_head.frame = RD_PACKED_FRAMES;
	if (!packer || rd_store_use(&area.store, memfd_create("data", 0)))
		return -1;
	len = rd_pack_make(packer, &pack_head, data, 1, pack);
	rd_packer_free(packer);
	nr = len / RD_BLOCK_SIZE;
	head = rd_slot_offset(0, FIRST_SLOT) / RD_BLOCK_SIZE;
	return nr > 100 && pwrite(area.store->fd, pack, len, head * RD_BLOCK_SIZE) == (ssize_t)len ?
		0 : -1;
}

/* @doomed is frame 1 from slot @first on. */
static void doom_tail(struct rd_doomed *doomed, struct rd_doomed_frame *frame, unsigned int first)
{
	unsigned int slot;

	*frame = (struct rd_doomed_frame){ .frame = 1 };
	for (slot = first; slot < RD_SEG_BLOCKS; slot++)
		rd_slots_set(&frame->slots, slot);
	*doomed = (struct rd_doomed){
		.area = &area,
		.first = rd_slot_offset(1, first) / RD_BLOCK_SIZE,
		.last = rd_slot_offset(1, RD_SEG_BLOCKS - 1) / RD_BLOCK_SIZE,
		.nr = 1,
		.frames = frame,
	};
}

static void end_is_doomed(void **state)
{
	unsigned int end = nr - (RD_SEG_BLOCKS - FIRST_SLOT);
	struct rd_doomed_frame frame;
	struct rd_doomed doomed;

	(void)state;
	doom_tail(&doomed, &frame, end - 1);
	assert_false(rd_doomed_has(&doomed, head));
	assert_true(rd_doomed_has_pack(&doomed, head));
	rd_doomed_keep_pack(&doomed, head);
	assert_true(frame.is_kept);
	/* What is right behind it is another's. */
	doom_tail(&doomed, &frame, end);
	assert_false(rd_doomed_has_pack(&doomed, head));
	rd_doomed_keep_pack(&doomed, head);
	assert_false(frame.is_kept);
	/* Long before any. */
	assert_false(rd_doomed_has_pack(&doomed, 3));
}

static void both_are_doomed(void **state)
{
	struct rd_doomed_frame frames[2];
	struct rd_doomed doomed;

	(void)state;
	doom_tail(&doomed, &frames[1], 0);
	frames[0] = (struct rd_doomed_frame){ .frame = 0 };
	rd_slots_set(&frames[0].slots, FIRST_SLOT);
	doomed.frames = frames;
	doomed.nr = 2;
	doomed.first = head;
	rd_doomed_keep_pack(&doomed, head);
	assert_true(frames[0].is_kept && frames[1].is_kept);
}

/* It is as long as any may be. */
static void has_no_head(void **state)
{
	struct rd_doomed_frame frame;
	struct rd_doomed doomed;
	u8 byte = 0;

	(void)state;
	assert_int_equal(pwrite(area.store->fd, &byte, 1, head * RD_BLOCK_SIZE), 1);
	doom_tail(&doomed, &frame, FIRST_SLOT - 1);
	assert_true(rd_doomed_has_pack(&doomed, head));
	doom_tail(&doomed, &frame, FIRST_SLOT);
	assert_false(rd_doomed_has_pack(&doomed, head));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(end_is_doomed),
		cmocka_unit_test(both_are_doomed),
		cmocka_unit_test(has_no_head),
	};

	return cmocka_run_group_tests_name("doomed", tests, set_up, NULL);
}
