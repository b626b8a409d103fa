# Loam: an immutable appliance image for Kubernetes nodes. `make help` lists the targets.

ARCH    ?= amd64
PROFILE ?= cloud
# A Debian mirror to use instead of the host's own: make image MIRROR=http://…
MIRROR  ?=
FUZZTIME ?= 30s
# Files with known vulnerabilities, for make test: ZIP archives of OSV, as
# https://osv-vulnerabilities.storage.googleapis.com/Debian/all.zip and …/Go/all.zip
LOAM_VULNERABILITIES ?=
# The Go project's database of vulnerabilities, for make check: https or file.
GOVULNDB ?= https://vuln.go.dev

export CGO_ENABLED = 0
# Packages and tests without a path of this machine in them are built once for all clones.
# Without information for debuggers, the compiler takes an eighth less; traces need none.
export GOFLAGS := $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false

out      = build/$(ARCH)-$(PROFILE)
loamctl  = build/loamctl
manuals  = build/man
version  = $(shell sed -n 's/^IMAGE_VERSION=//p' os-release)
image    = --arch $(ARCH) --profile $(PROFILE) $(if $(MIRROR),--mirror $(MIRROR))
# Of the packages in mkosi/packages.lock, or, when Debian has published others since, of today's, which then are in that file.
flags    = $(image) --update-packages=missing --out $(out)
sources  = agent cmd firmware image partitions test
# Machines are tested when nothing else runs: while one waits for its disk, a trial or a window, the others have the processors.
machines = ./test/node
# Where goroutines share something. Of agent, all but what computes for minutes and starts none.
shared   = ./cmd/... ./image/cache ./image/output ./image/pxe/... ./image/repository ./image/step ./test/cluster/... \
	./test/crash/upgrade ./test/ethernet ./test/fakesystemd ./test/plane ./test/recorded ./test/suite/... ./test/vm
alone    = /agent/(volume|install|plane/bundle)$$
# What computes for long, with what the unit tests show of each part: faults, cuts, fleets.
models   = /test/(crash/|damage|fleet)
# Small files of tests are in memory, where that has room and programs may be started there: on a disk, check takes a fifth longer.
memory   = $(shell grep -q '^[^ ]* /dev/shm [^ ]* [^ ]*noexec' /proc/mounts || \
	df --output=avail /dev/shm 2>/dev/null | awk 'NR == 2 && $$1 > 5000000 { print "TMPDIR=/dev/shm" }')
# The extension for Gardener is a module of its own, as it depends on Gardener.
extension = cmd/gardener-extension-os-loam

.DEFAULT_GOAL := help
.PHONY: help run cluster worker image next release extension test test-all suite images census test-places places check style vulnerabilities gardener-diff golden docs man pictures bench crash crash-long damage-proof cluster-proof rollout-proof pairs race fuzz upgrades upgrades-from clean $(loamctl)

help: ## list the targets (at once)
	@awk -F':.*## ' '/^##@ / {print "\n" substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo 'Times are for 2 cores without KVM, with a warm cache. The first build takes 2 minutes more, for arm64 5.'

##@ Try
run: $(loamctl) ## build the image, boot it in QEMU, apply examples/hello.yaml, or CONFIG=PATH (1 minute)
	@$(loamctl) run $(flags) $(CONFIG)

cluster: image ## a machine in QEMU that is a Kubernetes cluster by itself, to try things on, until Ctrl-C (4 minutes to start)
	@go build -o build/play ./test/cluster/play
	@build/play --build $(out)

worker: image ## the image in QEMU as a Node of a control plane on this host, to try things on, until Ctrl-C (3 minutes to start)
	@go build -o build/play ./test/cluster/play
	@build/play --build $(out) worker

##@ Build
image: $(loamctl) ## build the image only, ARCH=amd64|arm64 PROFILE=cloud|metal, into build/ARCH-PROFILE (10 seconds)
	@$(loamctl) build $(flags)

next: $(loamctl) ## build the same image as a later version, to upgrade to (10 seconds)
	@sed 's/$(version)/$(version).1/g' os-release > build/os-release-next
	@$(loamctl) build $(flags)-next --os-release build/os-release-next

extension: ## build the extension for Gardener into build/extension: the program, and its container image (1 minute)
	@rm -rf build/extension
	@cd $(extension) && go vet ./... && GOARCH=$(ARCH) go build -ldflags '-s -w' -o $(CURDIR)/build/extension/ . && \
		go run ./image -out $(CURDIR)/build/extension/image $(ARCH)=$(CURDIR)/build/extension/gardener-extension-os-loam

release: $(loamctl) ## build the image of exactly the packages in mkosi/packages.lock, into build/release/ARCH-PROFILE, and the man pages (20 seconds)
	@mkdir -p build/release
	@$(loamctl) build $(image) --out build/release/$(ARCH)-$(PROFILE)
	@$(MAKE) --no-print-directory man manuals=build/release/man

clean: ## remove build/; the cache in ~/.cache/loam stays (1 second)
	rm -rf build

##@ Test
check: style vulnerabilities ## format, vet, staticcheck, unit tests, layout, docs; no root, no network, no judges needed (90 seconds; 20 after a small change)
	CI= $(memory) go test -vet=off -p 4 -short $$(go list ./... | grep -vE '$(models)')

# Known vulnerabilities in what Loam's programs call, where their database is reachable.
vulnerabilities:
	@if curl --silent --fail --output /dev/null --max-time 10 $(GOVULNDB)/index/db.json; then \
		go tool -modfile=test/govulncheck/go.mod govulncheck -db $(GOVULNDB) ./cmd/...; \
	else \
		echo 'govulncheck: not done, as $(GOVULNDB) is not reachable'; \
	fi

style:
	@test -z "$$(gofmt -l $(sources))" || { echo 'gofmt: these files are not formatted:'; gofmt -l $(sources); exit 1; }
	go vet ./...
	go tool staticcheck ./...

test: suite ## what CI runs: style, short unit tests, judges on the image, the image in a VM (15 minutes; 30 with empty caches)
test: short = -short

test-all: suite ## the whole of every test, as after a change of the rigs or before a release (3 hours)

# Its last lines say what is broken. ONLY=STAGE,STAGE runs these stages, and what they need.
suite:
	@go build -o build/suite ./test/suite
	@export LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next && exec build/suite $(short) $(addprefix -only ,$(ONLY))

# What the tests of packages and machines look at, and what they look with.
images: image next
	@$(loamctl) judges $(flags) build/judges
	@$(if $(LOAM_VULNERABILITIES),$(loamctl) verify $(out) $(addprefix --vulnerabilities ,$(LOAM_VULNERABILITIES)), \
		echo 'vulnerabilities: not compared, as LOAM_VULNERABILITIES names no file')

census: ## run every test N times in random order, beside LOAD=1, and count failures; SHORT=1, ONLY=, PKGS=, RUN= narrow it (hours)
	@go build -o build/suite ./test/suite
	@if test -e build/judges/env; then . build/judges/env; export CI=true; fi; export LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next; \
		exec build/suite census $(addprefix -n ,$(N)) $(if $(LOAD),-load) $(if $(SHORT),-short) $(addprefix -only ,$(ONLY)) $(if $(RUN),-run '$(RUN)') $(PKGS)

test-places: next ## boot from every disk and network, with machine.yaml from every place; metal and cloud, amd64 and arm64 (2 hours)
	@for build in amd64-metal arm64-metal arm64-cloud $(ARCH)-$(PROFILE); do $(MAKE) places ARCH=$${build%-*} PROFILE=$${build#*-} || exit 1; done
	. build/judges/env && CI=true LOAM_ALL=1 LOAM_PLACES=1 LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next go test -count=1 -parallel 2 -timeout 60m -v \
		-run 'ForgetfulFirmware|EncryptedNode|SignedPolicy|DamagedESP|PXETo|WithContentIs|StateOfANode|DataVolume|NetworkOf' $(machines)

# One build of test-places: what is in an image, then the machines.
places: image
	@$(loamctl) judges $(flags) build/judges
	. build/judges/env && CI=true LOAM_PLACES=1 go test -count=1 -timeout 30m -run '^TestRoot$$|Small|Firmware|Microcode|SignedBuild|TrustsKeys|SecondBuild' ./test/image
	. build/judges/env && CI=true LOAM_PLACES=1 go test -count=1 -parallel 2 -timeout 60m -v -run 'Hypervisor|OnlyA?Signed|Drives|EveryBus|ATwin|FirstDrive|NetworkCards|LeastProcessor|TestUSBInstaller|Netboot|SecureBootFrom' $(machines)

##@ Prove
# One line of each layer; everything, if something is wrong.
layers = >build/crash.log 2>&1 && grep -o 'L[0-6]: .*\|[0-9]*  crash points in all' build/crash.log || { cat build/crash.log; exit 1; }

crash: image next ## cut the power, or kill the agent, at every moment of upgrades and configurations (10 minutes)
	@$(loamctl) judges $(flags) build/judges
	@. build/judges/env && export CI=true LOAM_CRASH_STATES=1000000 LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next; \
	go test -count=1 -timeout 30m -v -run '^TestAllThat|^TestCrashStates|Killed|^TestSeeded' ./agent/upgrade ./test/crash/upgrade $(layers); \
	go test -count=1 -timeout 30m -v -run '^TestPowerCuts' ./test/firmware $(layers); \
	go test -count=1 -timeout 30m -v -run '^TestPowerCutsOfARecordedNode' $(machines) $(layers)
	@LOAM_CRASH_POINTS=1600 go test -count=1 -timeout 30m -v -run '^TestCrash' ./test/crash/config $(layers)

crash-long: image next ## kill a VM that upgrades itself 500 times (CUTS); it always comes back (a night; CUTS=50 an hour)
	@$(loamctl) judges $(flags) build/judges
	. build/judges/env && CI=true LOAM_CUTS=$(or $(CUTS),500) LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next go test -count=1 -timeout 24h -v -run PowerCuts $(machines)

damage-proof: image ## repair 10,000 damages of state partitions and of ESPs on files, and 200 in a VM (DAMAGES=…; 20 minutes, then 3 hours)
	@$(loamctl) judges $(flags) build/judges
	. build/judges/env && CI=true LOAM_DAMAGES=10000 go test -count=1 -timeout 2h -v -run '^TestGenerated$$|^TestDamagesOfTheESP$$' ./test/damage ./test/crash/upgrade
	. build/judges/env && CI=true LOAM_DAMAGES=$(or $(DAMAGES),200) go test -count=1 -parallel 2 -timeout 12h -v -run '^TestGeneratedDamages$$' $(machines)

cluster-proof: image next ## prove machines that are clusters: kills, 1,500 power cuts of each change and 50 in VMs, clocks, families, upgrades, a disk for etcd; kubeadm and conformance tests as judges (10 hours)
	@$(loamctl) judges $(flags) build/judges
	@go run ./test/cluster/build
	@go run ./test/cluster/build etcd-3.6 kubelet-1.36 conformance
	. build/judges/env && export CI=true; status=0; \
	LOAM_CRASH_POINTS=1500 go test -count=1 -timeout 2h -v -run '^TestPowerCuts' ./test/crash/cluster || status=1; \
	LOAM_CLUSTER=1 go test -count=1 -timeout 2h -v ./test/plane || status=1; \
	LOAM_CLUSTER=1 LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next go test -count=1 -parallel 1 -timeout 14h -v -run '^TestACluster|^TestPowerCutsOfACluster|^TestConformance' $(machines) || status=1; \
	exit $$status

rollout-proof: image next ## nodes that take turns: every interleaving of 3 and 4 with each fault, 1,000 fleets with accidents (SEEDS=…), three in VMs (2 hours, 6 GB)
	@$(loamctl) judges $(flags) build/judges
	@go run ./test/cluster/build
	. build/judges/env && export CI=true LOAM_ROLLOUT=1 LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next; status=0; \
	go test -count=1 -timeout 6h -v ./test/crash/rollout || status=1; \
	LOAM_SEEDS=$(or $(SEEDS),1000) go test -count=1 -timeout 12h -v -run '^TestFleetsWithFaults$$' ./test/fleet || status=1; \
	go test -count=1 -timeout 2h -v -run '^TestMachinesTakeTurns$$' $(machines) || status=1; \
	exit $$status

pairs: image ## walk 1,000 random pairs of configurations on real systemd: restarts are exact (up to 40 minutes)
	@$(loamctl) judges $(flags) build/judges
	. build/judges/env && CI=true LOAM_PAIRS=1000 go test -count=1 -timeout 40m -run '^TestPairs$$' -v ./test/crash/systemdmodel

upgrades: image next ## upgrade to every kind of bad system in a VM, each falls back; drills (an hour)
	@$(loamctl) build $(flags)-4096 --sector-size 4096
	@$(loamctl) judges $(flags) build/judges
	. build/judges/env && CI=true LOAM_ALL=1 LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next go test -count=1 -timeout 90m -v -run 'Upgrade|BadSystem|Drill' $(machines)
	. build/judges/env && CI=true LOAM_BUILD=$(CURDIR)/$(out)-4096 LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next go test -count=1 -timeout 30m -v -run 'TestUpgrades|BadSystem' $(machines)

# The last versions before nodes kept the machine.yaml of a drive, and before that
# before disks had UUIDs of their own.
COMMITS = aa99b7b 18a045b

upgrades-from: image next ## upgrade machines in a VM that run the versions of COMMITS, and attach strangers' drives (20 minutes)
	@$(loamctl) judges $(flags) build/judges
	@for commit in $(COMMITS); do dir=build/early/$$commit; \
		if ! test -e $$dir; then git clone -q . $$dir.new && git -C $$dir.new checkout -q $$commit && mv $$dir.new $$dir || exit 1; fi; \
		$(MAKE) -C $$dir image || exit 1; done
	. build/judges/env && CI=true LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next LOAM_EARLY_BUILDS='$(patsubst %,$(CURDIR)/build/early/%/$(out),$(COMMITS))' \
		go test -count=1 -timeout 60m -v -run '^TestAnUpgradeFromAnEarlyVersion$$' $(machines)

race: ## find data races, by the tests of make test in which goroutines share something; needs a C compiler (8 minutes; 15 with empty caches)
	@command -v "$$(go env CC)" >/dev/null || { echo "make race: the race detector needs a C compiler, and there is no $$(go env CC): apt-get install gcc libc6-dev, or set CC"; exit 1; }
	@if test -e build/judges/env; then . build/judges/env; export CI=true; fi; export LOAM_BUILD_NEXT=$(CURDIR)/$(out)-next; \
		CGO_ENABLED=1 go test -vet=off -race -short -p 3 -parallel 4 -timeout 40m $$(go list ./agent/... | grep -vE '$(alone)') $(shared)

gardener-diff: image ## what nodes would do when their Gardener is updated, for each document that it renders (2 minutes)
	@$(loamctl) judges $(flags) build/judges
	@. build/judges/env && go run ./test/shoot/diff

fuzz: ## run every fuzz target for FUZZTIME (30s each, 16 minutes)
	@for p in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "== $$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5x $$p || exit 1; \
		done; \
	done

##@ Maintain
golden: ## take what the commands print now into the tests that compare it (1 minute)
	LOAM_GOLDEN=1 go test ./cmd/... ./agent/cri ./agent/metrics ./agent/network ./agent/osc/directive ./agent/plane ./agent/status
	git diff --stat -- '*testdata*'

docs: man ## write docs/reference, the JSON schemas and build/man from the code (20 seconds)
	LOAM_DOCS=1 go test -count=1 -run 'PageHas|PagesHave|ReferenceIs' ./test/docs ./cmd/loam ./cmd/loamctl
	git diff --stat -- docs cmd/loamctl/schema

man: ## write the man pages of loam and loamctl into build/man (10 seconds)
	@rm -rf $(manuals)
	@LOAM_MAN=$(CURDIR)/$(manuals) go test -count=1 -run 'ManPages' ./cmd/loam ./cmd/loamctl

pictures: image ## draw the pictures of README: the console of a node in QEMU, and make run (2 minutes)
	@$(loamctl) run $(flags) > build/run.txt
	@$(loamctl) judges $(flags) build/judges
	@. build/judges/env && go run ./test/docs/picture -run build/run.txt

bench: $(loamctl) ## measure docs/figures.md into build/bench/results.jsonl, and draw its plots (an hour)
	go run ./test/bench

$(loamctl):
	@mkdir -p build
	@go build -trimpath -o $(loamctl) ./cmd/loamctl
