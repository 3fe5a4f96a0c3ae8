# SPDX-License-Identifier: GPL-2.0
#
#   make               the programs, and the module for the running kernel (KDIR=)
#   make modules-all   the module for Debian's 6.1 and 6.12
#   make lint          checkpatch, sparse, W=1, shellcheck, mandoc
#   make check-fast    what needs no guest: some minutes
#   make check         the tests, in guests of both kernels and the debug kernel
#   make soak          for hours, and what takes too long for each time
#   make bench-target  what the target costs beside its peers, as a table
#   make bench-table   how fast a remap table is written, the same
#   make bench-pool    what the pool takes and how fast it is, the same
#   make bench-nbd     how fast versions are read over NBD, the same
#   make figures       all of these, as far as there are no results: a day; figures-small: on less
#                      content and in fewer rounds, in two hours
#   make demo          see the pool at work; demo-host: the whole, in a guest
#   make install       module by DKMS, programs, man pages, units, rules for udev
#   make install-proxmox  the plugin for Proxmox VE
#   make deb           the same as three Debian packages, in build/deb
#   make dist          the source of the last commit, as build/revdedup-VERSION.tar.gz
#   make repo          these, and prebuilt modules, as a signed apt repository (KEY=ID)
#   make rpm           packages for Fedora and RHEL, in build/rpm
#   make sbom          what the programs consist of and need, as CycloneDX
#
# A fresh Debian has no make yet: scripts/demo.sh and scripts/check.sh install
# what they need. All output goes to build/.

VERSION := 0.9.0

KDIR ?= /lib/modules/$(shell uname -r)/build
PREFIX ?= /usr/local
SBINDIR ?= $(PREFIX)/sbin
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
LIBDIR ?= $(PREFIX)/lib/revdedup
DOCDIR ?= $(PREFIX)/share/doc/revdedup
HOOKDIR ?= /etc/revdedup/hooks.d
UDEVDIR ?= $(PREFIX)/lib/udev/rules.d
PERLDIR ?= /usr/share/perl5
CONFDIR ?= /etc/revdedup
# Our first rules come between device mapper's own and those that make links: 55-dm.rules and
# 60-persistent-storage-dm.rules of Debian, 10-dm.rules and 13-dm-disk.rules of all others.
UDEVFIRST ?= $(if $(wildcard /usr/lib/udev/rules.d/10-dm.rules),12,56)
DKMS_SRC := /usr/src/revdedup-$(VERSION)

export PREFIX SBINDIR MANDIR

all: userspace module

userspace:
	$(MAKE) -C userspace

# Where there are no headers, the programs alone are worth having.
module:
	@if [ -f "$(KDIR)/Makefile" ]; then \
		scripts/module-build.sh --kdir "$(KDIR)" --out build/module; \
	else \
		echo "no kernel headers in $(KDIR): module not built (KDIR= says where they are)"; \
	fi

modules-all:
	for series in 6.1 6.12; do \
		kdir=$$(scripts/headers.sh $$series) && \
			scripts/module-build.sh --kdir "$$kdir" --out "build/modules/$$series" || \
			exit; \
	done

help:
	@sed -n '/^#   make/,/^#$$/{s/^#   //p}' Makefile

lint:
	scripts/lint.sh

check-fast:
	scripts/check.sh fast

check:
	scripts/check.sh

soak:
	scripts/check.sh soak

bench-target:
	tests/bench/target/run.sh

bench-table:
	tests/bench/target/table-write.sh

bench-pool:
	tests/bench/pool/run.sh

bench-nbd:
	tests/bench/nbd/run.sh

figures:
	tests/bench/figures.sh

figures-small:
	tests/bench/figures.sh --small

demo:
	scripts/demo.sh

demo-host:
	scripts/demo-host.sh

install: install-programs install-docs install-host install-module \
	$(if $(shell pkg-config --exists nbdkit && echo yes),install-plugin)

install-programs: userspace
	$(MAKE) -C userspace install

# What administrators read, as text, and what they copy.
pages := $(addprefix Documentation/,guests.rst host.rst pool.rst dm-revdedup.rst tutorial.rst \
	under-a-pool.rst secure-boot.rst figures.rst offsite.rst stream.rst formats.rst \
	proxmox.rst forward.svg pieces.svg)
install-docs:
	install -d "$(DESTDIR)$(DOCDIR)/examples"
	install -m 644 README.md CHANGELOG.md $(pages) "$(DESTDIR)$(DOCDIR)"
	install -m 644 systemd/examples/* tools/proxmox/* "$(DESTDIR)$(DOCDIR)/examples"

install-plugin: userspace
	$(MAKE) -C userspace install-plugin

# The storage plugin for Proxmox VE, on one of its nodes: its daemons are to be restarted.
install-proxmox:
	install -d "$(DESTDIR)$(PERLDIR)/PVE/Storage/Custom"
	sed 's|/usr/sbin/|$(SBINDIR)/|' tools/proxmox/RevdedupPlugin.pm \
		>"$(DESTDIR)$(PERLDIR)/PVE/Storage/Custom/RevdedupPlugin.pm"

# What a host starts by itself. The units name the program where it is installed.
units := $(notdir $(wildcard systemd/*.service systemd/*.timer))
install-host:
	install -d "$(DESTDIR)$(UNITDIR)"
	for unit in $(units); do \
		sed 's|/usr/sbin/|$(SBINDIR)/|; s|/usr/lib/revdedup/|$(LIBDIR)/|' "systemd/$$unit" \
			>"$(DESTDIR)$(UNITDIR)/$$unit" || exit; \
	done
	install -D -m 755 systemd/tell-failure "$(DESTDIR)$(LIBDIR)/tell-failure"
	@# The administrator may have changed or removed it.
	[ -e "$(DESTDIR)$(HOOKDIR)" ] || \
		install -D -m 755 systemd/hooks/libvirt "$(DESTDIR)$(HOOKDIR)/libvirt"
	install -d "$(DESTDIR)$(UDEVDIR)"
	install -m 644 systemd/56-revdedup.rules "$(DESTDIR)$(UDEVDIR)/$(UDEVFIRST)-revdedup.rules"
	install -m 644 systemd/63-revdedup.rules "$(DESTDIR)$(UDEVDIR)"
	[ -e "$(DESTDIR)$(CONFDIR)/revdedup.conf" ] || \
		install -D -m 644 systemd/revdedup.conf "$(DESTDIR)$(CONFDIR)/revdedup.conf"
	@# Otherwise attached volumes have no device after the next boot.
	@if [ -z "$(DESTDIR)" ] && [ -d /run/systemd/system ]; then \
		systemctl daemon-reload; \
		systemctl enable "$(UNITDIR)/revdedup-attach.service" || \
			echo "enable it by hand, or attached volumes have no device after a boot"; \
	fi

deb:
	scripts/deb.sh

# What is committed, and nothing else: it builds without git.
dist:
	@mkdir -p build
	git archive --prefix=revdedup-$(VERSION)/ -o build/revdedup-$(VERSION).tar.gz HEAD
	@echo "build/revdedup-$(VERSION).tar.gz"

repo:
	scripts/repo.sh $(if $(KEY),--key "$(KEY)")

rpm:
	scripts/rpm.sh

sbom: userspace
	scripts/sbom.py

# DKMS builds the module, now and again for each new kernel.
install-module:
	install -d "$(DESTDIR)$(DKMS_SRC)/kernel"
	install -m 644 Kbuild "$(DESTDIR)$(DKMS_SRC)"
	install -m 644 kernel/*.[ch] kernel/Kbuild "$(DESTDIR)$(DKMS_SRC)/kernel"
	sed 's/@VERSION@/$(VERSION)/' scripts/dkms.conf.in \
		>"$(DESTDIR)$(DKMS_SRC)/dkms.conf"
	@if [ -n "$(DESTDIR)" ]; then \
		echo "staged: run 'dkms install revdedup/$(VERSION)' on the machine"; \
	else \
		scripts/dkms-install.sh "$(VERSION)"; \
	fi

uninstall:
	@for file in "$(DESTDIR)"/etc/revdedup/volumes/revdedup-*; do \
		if [ -e "$$file" ]; then \
			echo "volumes are attached: 'revdedupctl status' lists them," \
				"'revdedupctl detach VOL' first"; \
			exit 1; \
		fi; \
	done
	-[ -n "$(DESTDIR)" ] || [ ! -d /run/systemd/system ] || systemctl disable --now $(units)
	-dkms remove "revdedup/$(VERSION)" --all
	rm -rf "$(DESTDIR)$(DKMS_SRC)"
	rm -f $(addprefix "$(DESTDIR)$(UNITDIR)"/,$(units)) \
		$(addprefix "$(DESTDIR)$(UDEVDIR)"/,$(addsuffix -revdedup.rules,$(UDEVFIRST) 63))
	rm -rf "$(DESTDIR)$(LIBDIR)" "$(DESTDIR)$(DOCDIR)"
	-cmp -s systemd/hooks/libvirt "$(DESTDIR)$(HOOKDIR)/libvirt" && \
		rm "$(DESTDIR)$(HOOKDIR)/libvirt"
	rm -f "$(DESTDIR)$(PERLDIR)/PVE/Storage/Custom/RevdedupPlugin.pm"
	$(MAKE) -C userspace uninstall

clean:
	rm -rf build

.PHONY: all help userspace module modules-all lint check-fast check soak bench-target \
	bench-table bench-pool bench-nbd figures figures-small demo demo-host install \
	install-programs install-docs install-host install-plugin install-proxmox \
	install-module deb dist repo rpm sbom uninstall clean
