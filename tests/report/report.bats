#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0
#
# revdedupctl report: its numbers beside those of other commands, and the page in a browser.
# BUILD is where tests/unit/Makefile built revdedupctl with sanitizers.
# shellcheck disable=SC2030,SC2031 # each test is a subshell, and knows it
# shellcheck disable=SC2154 # by lib.bash
# shellcheck disable=SC2016 # in JavaScript $ is a name
load ../cli/pool

# Three volumes, of which two begin alike, with pieces, zeros, deleted versions,
# and times over some months and one in the future.
make_fleet() { made_once fill_fleet; }

fill_fleet() {
	local nr
	make_pool 256M
	truncate -s 24M 1.img
	blocks 1.img 0 3000
	cp --sparse=always 1.img 2.img
	truncate -s 16M 3.img
	blocks 3.img 100 1500
	for nr in 1 2 3 4 5 6 7 8; do
		must snapshot a --from 1.img
		must snapshot b --from 2.img
		must snapshot c --from 3.img
		blocks 1.img $((nr * 300)) $((nr * 7))
		blocks 2.img $((2900 - nr * 200)) 520
		blocks 3.img $((nr * 100 + nr)) 1
		# Zeros in one, and in another what the first had.
		fallocate -p -o $((nr << 20)) -l 512K 3.img
		dd if=1.img of=2.img bs=4096 skip=$((nr * 300)) seek=$((nr * 300)) count=3 \
			conv=notrunc status=none
		# For two versions, what all have elsewhere in the same image.
		if [ "$nr" -eq 4 ] || [ "$nr" -eq 6 ]; then
			dd if=1.img of=1.img bs=4096 skip=$((nr * 700 - 2700)) seek=3200 count=40 \
				conv=notrunc status=none
		fi
	done
	must delete a@3 b@1
	must protect c@2
	must tag c@4 +gold
	"$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db \
		"UPDATE version SET time = 1772000000 + number * 200000 + number * number * 20000
			+ volume * 5000
			+ (volume = 2 AND number = 5) * 1000000000"
}

# needs QUERY...: of the numbers, which are in numbers.json.
numbers() {
	must report --json "$@"
	printf '%s\n' "$output" >numbers.json
}

@test "sets of versions hold what the pool stores, and what only a version has" {
	make_fleet
	numbers
	must list --json
	printf '%s\n' "$output" >list.json
	/usr/bin/python3 - <<-'END'
		import json
		all = json.load(open("numbers.json"))
		listed = {row["version"]: row for row in map(json.loads, open("list.json"))}
		held = sum(one[0] for one in all["held"])
		assert held == all["bytes_unique"], (held, all["bytes_unique"])
		assert (all["held_elsewhere"], all["held_sample"]) == (0, 1)
		first, nr = 1, 0
		for volume in all["volumes"]:
		    assert volume["first"] == first, volume["name"]
		    for i, number in enumerate(volume["number"]):
		        row = listed[f"{volume['name']}@{number}"]
		        mine = sum(one[0] for one in all["held"] if one[1:] == [first + i, first + i + 1])
		        assert mine == row["bytes_unique"] == volume["bytes_unique"][i], (row, mine)
		        assert volume["protected"][i] == row["protected"]
		        nr += 1
		    first += len(volume["number"])
		assert nr == len(listed) == 22, nr
		assert len({tuple(one[1:]) for one in all["held"]}) == len(all["held"]), "a set twice"
	END
}

@test "what any versions free together is what delete says of them" {
	local round versions
	make_fleet
	must unprotect c@2
	numbers
	# All but one version, and some.
	for round in {1..22} {101..106}; do
		mapfile -t versions < <(/usr/bin/python3 - "$round" <<-'END'
			import json, random, sys
			all = json.load(open("numbers.json"))
			round = int(sys.argv[1])
			random.seed(round)
			share = random.random()
			gone, names, held = set(), [], 0
			for volume in all["volumes"]:
			    for i, number in enumerate(volume["number"]):
			        n = volume["first"] + i
			        if n != round if round < 100 else random.random() < share:
			            gone.add(n)
			            names.append(f"{volume['name']}@{number}")
			for one in all["held"]:
			    versions = [n for f, e in zip(one[1::2], one[2::2]) for n in range(f, e)]
			    held += one[0] if gone.issuperset(versions) else 0
			print(held, *(names), sep="\n")
		END
		)
		[ "${#versions[@]}" -gt 1 ] || continue
		must delete --dry-run --json "${versions[@]:1}"
		[ "$(field -1 '["bytes"]')" -eq "${versions[0]}" ] || {
			echo "round $round: the report says ${versions[0]}, and delete: ${lines[-1]}"
			return 1
		}
	done
}

@test "the map has what came with each version, and that of deleted ones with the next" {
	make_fleet
	numbers a
	/usr/bin/python3 - <<-'END'
		import json
		all = json.load(open("numbers.json"))
		volume, = all["volumes"]
		assert (volume["name"], volume["segments"], volume["parts"]) == ("a", 12, 12)
		assert volume["number"] == [1, 2, 4, 5, 6, 7, 8]
		assert volume["changed"][0] == "zzzzzz", volume["changed"]
		assert volume["changed"][1] == "z", volume["changed"]
		# 600 to 614 came with version 3, 900 to 921 with 4.
		assert volume["changed"][2] == ".z", volume["changed"]
		assert volume["changed"][3] == "..z...z", volume["changed"]
		assert volume["newest"]["one_piece"] == "zzzzzzz", volume["newest"]
		assert all["held_elsewhere"] > 0
	END
	numbers c
	/usr/bin/python3 - <<-'END'
		import json
		volume, = json.load(open("numbers.json"))["volumes"]
		# Where all of a segment becomes zeros there is a mark of its own.
		assert volume["newest"]["one_piece"] == "zzz", volume["newest"]
		assert any("_" in text for text in volume["changed"]), volume["changed"]
	END
}

@test "a segment that becomes zeros has its mark" {
	make_versions
	fallocate -p -o 0 -l 2M 3.img
	must snapshot vm1 --from 3.img
	numbers
	[ "$(field 0 '["volumes"][0]["changed"][3]')" = _ ]
	[ "$(field 0 '["volumes"][0]["newest"]["one_piece"]')" = .z ]
}

@test "in packs as well: the sets hold about what packs take" {
	must init --compression zstd pool --size 128M
	export REVDEDUP_POOL=$PWD/pool
	base64 -w0 /dev/urandom | head -c 6M >1.img
	must snapshot vm1 --from 1.img
	base64 -w0 /dev/urandom | dd of=1.img bs=4096 seek=600 count=200 iflag=fullblock \
		conv=notrunc status=none
	must snapshot vm1 --from 1.img
	numbers
	/usr/bin/python3 - <<-'END'
		import json
		all = json.load(open("numbers.json"))
		held = sum(one[0] for one in all["held"])
		# Blocks that have died in a pack are part of it until it is made anew.
		assert 0.9 * all["bytes_data"] <= held <= all["bytes_data"] * 1.01, (held, all["bytes_data"])
		assert all["volumes"][0]["newest"]["packed"] == "zzz", all["volumes"][0]["newest"]
	END
}

@test "a large pool is counted by a sample" {
	make_pool 1G
	"$BATS_TEST_DIRNAME/large.py" 2 40 20000 10
	numbers
	/usr/bin/python3 - <<-'END'
		import json
		all = json.load(open("numbers.json"))
		held = sum(one[0] for one in all["held"])
		assert all["held_sample"] == 4, all["held_sample"]
		true = (40000 + 2 * 39 * 10) << 21
		assert abs(held - true) < 0.05 * true, (held, true)
	END
}

@test "the page frees in its rules what prune says" {
	local rule days
	make_fleet
	must report --html page.html --keep-daily 3 --keep-tag gold
	[ "$output" = "wrote 'page.html'" ]
	for rule in last=3 hourly=4 daily=5 weekly={1,2,3,4,5,6} monthly=2 yearly=1 daily=3; do
		must prune --dry-run --json --keep-tag gold "--keep-${rule%=*}" "${rule#*=}"
		grep -c '"keep": false' <<<"$output" || :
		field -1 '["bytes"]'
	done >said
	days='["last", "hourly", "daily", "weekly", "monthly", "yearly"].forEach(r => $("rule-" + r).value = 0)'
	run "$BATS_TEST_DIRNAME/page.py" page.html \
		"(set = (rule, nr) => { $days; \$('rule-' + rule).value = nr; applyRules(); return [
			volumes.map(v => v.number.filter((n, i) => !kept[v.first + i]).length)
				.reduce((a, b) => a + b), freedBy(kept)].join(); }, 0)" \
		'set("last", 3)' 'set("hourly", 4)' 'set("daily", 5)' 'set("weekly", 1)' \
		'set("weekly", 2)' 'set("weekly", 3)' 'set("weekly", 4)' 'set("weekly", 5)' \
		'set("weekly", 6)' 'set("monthly", 2)' 'set("yearly", 1)' 'set("daily", 3)' '$("freed").textContent'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$(sed '1d;$d;s/"//g' <<<"$output")" = "$(paste -d, - - <said)" ] || {
		echo "prune says:"
		paste -d, - - <said
		return 1
	}
	[[ ${lines[-1]} == *' versions of 22 would go, and '*' would be free.'*'--keep-daily 3 --keep-tag gold"' ]]
}

@test "the page can be used by keys, is read out, and fits a telephone" {
	make_fleet
	must report --html page.html
	run "$BATS_TEST_DIRNAME/page.py" --width 400 --scheme dark page.html \
		'document.documentElement.scrollWidth <= 400' '($("map").focus(), $("here").textContent)' \
		key:ArrowDown key:ArrowRight key:ArrowRight '$("here").textContent' \
		'[...document.querySelectorAll("table")].filter(t => !t.closest(".scroll")).length' \
		'[...document.querySelectorAll("canvas, svg")].every(c => c.ariaLabel || c.getAttribute("aria-labelledby") || c.getAttribute("aria-label"))'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = true ]
	[[ ${lines[1]} == '"a@8, '*' from 0 MiB to 2 MiB: '* ]]
	[[ ${lines[2]} == '"a@7, '*' from 4 MiB to 6 MiB: '* ]]
	[ "${lines[3]}" = 0 ]
	[ "${lines[4]}" = true ]
}

@test "a page of one volume: prune is for that alone, what is in use stays, boots are told" {
	local uid nr
	make_fleet
	mkdir -m 700 pool/boot
	# 5 was booted again after 7.
	for nr in 7 5; do
		must show "a@$nr" --json
		uid=$(field 0 '["uid"]')
		printf 'time %d\npassed %d\nwhy a test\n' $((1790000000 - nr)) $((nr == 7)) \
			>"pool/boot/$uid.result"
	done
	chmod 600 pool/boot/*
	must report a --html page.html --keep-last 2
	run "$BATS_TEST_DIRNAME/page.py" page.html '[...document.querySelectorAll("#freed code")].map(e => e.textContent).join()' \
		'freedBy(kept) > 0' '(volumes[0].in_use.fill(true), freedBy(kept))' \
		'$("volumes").innerText.includes("a@5 does not")'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = '"revdedupctl prune a --dry-run --keep-last 2"' ]
	[ "${lines[1]}" = true ]
	[ "${lines[2]}" = 0 ]
	[ "${lines[3]}" = true ]
}

@test "text in the pool is text on the page" {
	local evil='</script><script>document.title="taken"</script><b>&quot;'
	make_versions
	must snapshot vm1 --from 3.img --comment "$evil"
	must report --html page.html
	run "$BATS_TEST_DIRNAME/page.py" page.html 'document.title' 'volumes[0].comment[3]' \
		'document.querySelectorAll("b").length'
	echo "$output"
	[ "$status" -eq 0 ]
	[[ ${lines[0]} == '"revdedup: '*'/pool"' ]]
	[ "${lines[1]}" = '"</script><script>document.title=\"taken\"</script><b>&quot;"' ]
	[ "${lines[2]}" = 0 ]
}

@test "one version, none, and a pool that is damaged" {
	make_pool 64M
	must report --html none.html
	truncate -s 2M 1.img
	blocks 1.img 0 5
	must snapshot vm1 --from 1.img
	must report --html one.html
	run "$BATS_TEST_DIRNAME/page.py" none.html '$("volume").hidden'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$output" = true ]
	run "$BATS_TEST_DIRNAME/page.py" one.html '$("versions").tBodies[0].rows.length'
	echo "$output"
	[ "$status" -eq 0 ]
	[ "$output" = 1 ]
	"$BATS_TEST_DIRNAME/../cli/edit-catalog.py" pool/catalog.db \
		"UPDATE recipe SET map = x'ff'"
	ctl report --html damaged.html
	[ "$status" -eq 4 ]
	run "$BATS_TEST_DIRNAME/page.py" damaged.html '$("note").textContent'
	echo "$output"
	[ "$status" -eq 0 ]
	[[ $output == *'The catalog is damaged'* ]]
}

# opens LIMIT STEP...: the page is not longer, and opens in two seconds.
opens() {
	must report --html page.html --keep-daily 7
	[ "$(stat -c %s page.html)" -lt "$1" ]
	run "$BATS_TEST_DIRNAME/page.py" page.html \
		'performance.timing.loadEventEnd - performance.timing.navigationStart < 2000' "${@:2}"
	echo "$output"
	[ "$status" -eq 0 ]
	[ "${lines[0]}" = true ]
}

# bats test_tags=soak
@test "5000 versions of 4 TiB are a page of less than 5 MiB, and 500 volumes one that can be used" {
	make_pool 1G
	"$BATS_TEST_DIRNAME/large.py" 1 5000 2000000 20
	opens $((5 << 20)) 'volumes[0].number.length'
	[ "${lines[1]}" = 5000 ]
	rm -r pool
	make_pool 1G
	"$BATS_TEST_DIRNAME/large.py" 500 100 500 5
	opens $((20 << 20)) '$("volumes").tBodies[0].rows.length'
	[ "${lines[1]}" = 500 ]
}

# bats test_tags=soak
@test "axe-core finds nothing on the page" {
	make_fleet
	must report --html page.html --keep-daily 3
	rm -r pool
	make_pool 64M
	must report --html none.html
	(cd "$BATS_FILE_TMPDIR" && npm pack --silent axe-core@4 && tar -xf axe-core-4*.tgz)
	for page in page none; do
		for scheme in light dark; do
			run "$BATS_TEST_DIRNAME/page.py" --scheme "$scheme" \
				--axe "$BATS_FILE_TMPDIR/package/axe.min.js" "$page.html"
			echo "$output"
			[ "$status" -eq 0 ]
		done
	done
}

@test "what is wrong in a command line is said, and nothing is written" {
	make_versions
	ctl report
	[ "$status" -eq 2 ]
	[[ ${lines[0]} == *'name a file with --html, or use --json'* ]]
	ctl report vm9 --html page.html
	[ "$status" -ne 0 ]
	[[ ${lines[0]} == *"'vm9'"* ]]
	ctl report vm1@2 --html page.html
	[ "$status" -eq 2 ]
	ctl report --html page.html --keep-daily x
	[ "$status" -eq 2 ]
	ctl report --html nowhere/page.html
	[ "$status" -ne 0 ]
	[[ ${lines[0]} == *"cannot write 'nowhere/page.html'"* ]]
	[ -z "$(ls page.html* 2>/dev/null)" ]
	must report --html - >page
	grep -q '^<!DOCTYPE html>' <<<"$output"
	mkdir etc
	printf '[report]\nhtml = %s/page.html\n' "$PWD" >etc/revdedup.conf
	REVDEDUP_CONFIG=$PWD/etc must report
	[ "$(stat -c %a page.html)" = 644 ]
}
