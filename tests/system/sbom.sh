#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Usage: sbom.sh
#
# Test the bill of materials: it fits to the schema of CycloneDX, as its own validator knows it,
# has each library that the programs name, and is the same each time. A library whose licence is
# not known is an error.
# shellcheck source=tests/system/packages.bash
. "${BASH_SOURCE[0]%/*}/packages.bash"

scripts/setup.sh build sbom
build=$PWD/build/sbom-test
validator='cyclonedx-python-lib[json-validation]==11.12.0'

make_venv() { python3 -m venv "$1" && "$1/bin/pip" -q install "$validator"; }

# But for python3 itself, programs in it name where they were made.
venv=$(cached "sbom/$(sha256sum <<<"$validator" | head -c 8)" make_venv)

fits() {
	"$venv/bin/python3" - "$1" <<-'END'
		import sys
		from cyclonedx.schema import SchemaVersion
		from cyclonedx.validation.json import JsonStrictValidator
		with open(sys.argv[1], encoding="utf-8") as file:
		    wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(file.read())
		sys.exit(str(wrong) if wrong else 0)
	END
}

# has_all PROGRAM: each library that it names is in the file, with a version and a licence.
has_all() {
	local name
	readelf -d "build/bin/$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$build/needed"
	[ -s "$build/needed" ] || return
	while read -r name; do
		echo "$name"
		python3 - "$name" <<-'END' || return
			import json, sys
			[found] = [c for c in json.load(open("build/sbom.json"))["components"]
			           if c["bom-ref"] == sys.argv[1]]
			assert found["version"] and found["licenses"] and found["purl"], found
		END
	done < <(grep -v '^ld-' "$build/needed")
}

rm -rf "$build"
mkdir -p "$build/tree/scripts"
ok "it is made" make sbom
ok "it fits to the schema" fits build/sbom.json
for program in revdedupctl revdedup-meta nbdkit-revdedup-plugin.so; do
	ok "it has what $program names" has_all "$program"
done
for name in libguestfs.so.0 libnbd.so.0 librados.so.2 librbd.so.1; do
	ok "and what is loaded: $name" grep -F "\"bom-ref\": \"$name\"" build/sbom.json
done
scripts/sbom.py --out "$build/again.json" >/dev/null
ok "it is the same again" cmp build/sbom.json "$build/again.json"
sed 's/"specVersion": "1.5"/&, "more": 1/' build/sbom.json >"$build/wrong.json"
fits_not() { ! fits "$@"; }
ok "the validator finds what is wrong" fits_not "$build/wrong.json"
sed '/"libzstd": /d' scripts/sbom.py >"$build/tree/scripts/sbom.py"
ln -s "$PWD"/{.git,Makefile,userspace,build} "$build/tree"
unknown() {
	! python3 "$build/tree/scripts/sbom.py" --out "$build/none" 2>"$build/error" &&
		cat "$build/error" && grep -F "the licence of 'libzstd' is not known" "$build/error"
}
ok "a library whose licence is not known is an error" unknown
echo "# $number passed"
