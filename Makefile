# Drydock: `make help` lists the targets.
GO       ?= go
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# One set of build flags everywhere, so that Kubernetes is compiled once. They make compiling cheaper (decision 116): the compiler collects
# garbage only at 2 GiB, which the EC2 client needs; it makes no debugging information, which would be stripped; and it inlines nothing in the
# SDK's clients, of which almost only the types are used.
export CGO_ENABLED = 0
export GOFLAGS    := $(shell $(GO) env GOFLAGS) -trimpath '-toolexec=env GOGC=off GOMEMLIMIT=2GiB' -gcflags=all=-dwarf=false \
	'-gcflags=github.com/aws/aws-sdk-go-v2/service/...=-dwarf=false -l'
LDFLAGS   = -s -w -X github.com/drydock-dev/drydock/internal/app.version=$(VERSION)
BUILD     = $(GO) build -ldflags '$(LDFLAGS)'
PLATFORMS = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# The packages that do not link the Kubernetes servers: all except the binary, the child and the programs of nodes.
LIGHT     = $(shell $(GO) list ./... | grep -v -e /cmd/drydock$$ -e /controlplane/child$$ -e /containers/programs$$ -e /nodebin/node$$)
T        ?= 30s

.DEFAULT_GOAL := help
.PHONY: help build nodebin dist demo run test check lint vet typecheck vulncheck generate sums verify-generated compat failures failures-containers failures-twins fixture golden e2e flakes eksctl cdk karpenter awscli2 conformance-tests conformance soak advice race race-e2e bench fuzz clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/drydock (the first build compiles Kubernetes: about six minutes on two cores)
	@[ -x bin/drydock ] || echo "Building bin/drydock. The first build compiles Kubernetes and takes some minutes."
	$(BUILD) -o bin/drydock ./cmd/drydock
	@[ ! -e $(NODEBIN)/drydock-node.zst ] || [ "$$(cat $(NODEBIN)/stamp 2> /dev/null)" = "$$($(NODESTAMP))" ] || \
		echo "build: WARNING: bin/drydock has programs of nodes that were not built from these sources: make nodebin build"

# The programs of nodes that run containers, which the build embeds. Their sources are tools/nodebin and the packages that it links, such as
# internal/node/containers/programs and internal/machine/containers/inside. runc needs a C compiler and libseccomp.a. If libseccomp-dev is not
# installed, Debian's package is downloaded and unpacked in bin, without installing it; LIBSECCOMP names another such folder.
NODEARCH   = $(shell $(GO) env GOARCH)
NODEBUILD  = bin/nodebin-$(NODEARCH)
NODEBIN    = internal/machine/containers/nodebin/bin/linux-$(NODEARCH)
LIBSECCOMP ?= $(if $(wildcard /usr/include/seccomp.h),,$(CURDIR)/bin/libseccomp)
# Another processor needs a cross compiler, and libseccomp.a for it in LIBSECCOMP.
NODECC     = $(if $(filter $(NODEARCH),$(shell $(GO) env GOHOSTARCH)),gcc,$(if $(filter arm64,$(NODEARCH)),aarch64,x86_64)-linux-gnu-gcc)
SECCOMPLIB = $(LIBSECCOMP)/usr/lib/$(shell $(NODECC) -dumpmachine 2>/dev/null)
NODESTAMP  = GO='$(GO)' sh tools/nodebin/stamp.sh $(NODEARCH)
.PHONY: nodebin-needs
nodebin-needs: # fail if this computer lacks what the programs of nodes are built from, besides Go
	@command -v $(NODECC) > /dev/null || { echo "nodebin: NOT BUILT: there is no $(NODECC): apt-get install gcc libc6-dev libseccomp-dev, or a cross compiler for another NODEARCH"; exit 1; }
	@rm -rf $(NODEBUILD) && mkdir -p $(NODEBUILD)
	@[ -f $(LIBSECCOMP)/usr/include/seccomp.h ] || { mkdir -p $(LIBSECCOMP) && cd $(LIBSECCOMP) && apt-get download libseccomp-dev && dpkg -x libseccomp-dev_*.deb . ; } || \
		{ echo "nodebin: NOT BUILT: there is no libseccomp.a: apt-get install libseccomp-dev"; exit 1; }
	@echo 'int main() { return 0; }' > $(NODEBUILD)/probe.c; $(NODECC) -static -o $(NODEBUILD)/probe $(NODEBUILD)/probe.c -L$(SECCOMPLIB) -lseccomp || \
		{ echo "nodebin: NOT BUILT: $(NODECC) has no static C library or libseccomp.a: apt-get install libc6-dev libseccomp-dev, or set LIBSECCOMP for another NODEARCH"; exit 1; }
	@rm $(NODEBUILD)/probe $(NODEBUILD)/probe.c
	sh tools/nodebin/nft.sh $(NODEARCH) $(NODEBUILD)/nft.tar

nodebin: nodebin-needs ## build the programs of nodes that run containers, which the next build embeds (needs gcc and libseccomp-dev)
	$(NODESTAMP) > $(NODEBUILD)/stamp
	cd tools/nodebin/runc && CGO_ENABLED=1 GOOS=linux GOARCH=$(NODEARCH) CC=$(NODECC) CGO_CFLAGS="-I$(LIBSECCOMP)/usr/include" CGO_LDFLAGS="-L$(SECCOMPLIB)" PKG_CONFIG_PATH=$(SECCOMPLIB)/pkgconfig \
		$(GO) build -tags 'seccomp netgo osusergo' -ldflags '-s -w -linkmode external -extldflags -static -X main.version=1.5.2' -o $(CURDIR)/$(NODEBUILD)/runc github.com/opencontainers/runc
	GOOS=linux GOARCH=$(NODEARCH) $(GO) build -ldflags '-s -w' -o $(NODEBUILD)/drydock-node ./tools/nodebin/node
	GOOS=linux GOARCH=$(NODEARCH) $(GO) build -ldflags '-s -w' -o $(NODEBUILD)/drydock-machine ./tools/nodebin/machine
	GOOS=linux GOARCH=$(NODEARCH) $(GO) build -ldflags '-s -w' -o $(NODEBUILD)/containerd-shim-runc-v2 ./tools/nodebin/shim
	GOOS=linux GOARCH=$(NODEARCH) $(GO) build -ldflags '-s -w' -o $(NODEBUILD)/nodetool ./tools/nodebin/nodetool
	GOOS=linux GOARCH=$(NODEARCH) $(GO) build -ldflags '-s -w' -o $(NODEBUILD)/guest ./tools/nodebin/guest
	cd tools/nodebin/coredns && GOOS=linux GOARCH=$(NODEARCH) $(GO) build -ldflags '-s -w' -o $(CURDIR)/$(NODEBUILD)/coredns .
	cd tools/nodebin/csi && GOOS=linux GOARCH=$(NODEARCH) $(GO) build -ldflags '-s -w' -o $(CURDIR)/$(NODEBUILD)/csi .
	$(GO) run ./tools/nodebin/pack $(NODEBUILD)/drydock-node $(NODEBUILD)/drydock-machine $(NODEBUILD)/runc $(NODEBUILD)/containerd-shim-runc-v2 $(NODEBUILD)/nodetool $(NODEBUILD)/guest $(NODEBUILD)/coredns $(NODEBUILD)/csi $(NODEBUILD)/nft.tar
	@find $(NODEBIN) -mindepth 1 ! -name README -delete && mv $(NODEBUILD)/* $(NODEBIN)/ # last, so that a build that fails leaves the ones before
	@ls -l $(NODEBIN)

# A Go whose standard library has no known vulnerabilities (make vulncheck), whatever builds everything else.
RELEASE_GO ?= go1.26.10
dist: export GOTOOLCHAIN = $(RELEASE_GO)
dist: ## static, stripped, checksummed binaries for Linux and macOS in dist/, with the programs of nodes for each processor that has a C compiler here
	@mkdir -p dist
	@set -e; for arch in $(patsubst linux/%,%,$(filter linux/%,$(PLATFORMS))); do \
		if $(MAKE) --no-print-directory nodebin-needs NODEARCH=$$arch; then $(MAKE) --no-print-directory nodebin NODEARCH=$$arch; \
		elif [ -e internal/machine/containers/nodebin/bin/linux-$$arch/drydock-node.zst ]; then echo "dist: WARNING: dist/drydock-linux-$$arch has programs of nodes of an earlier make nodebin, which may be another Go's than $(RELEASE_GO)"; \
		else echo "dist: WARNING: dist/drydock-linux-$$arch HAS NO PROGRAMS OF NODES: nodes that run containers need another build"; fi; \
	done
	@set -e; for p in $(PLATFORMS); do \
		echo "dist/drydock-$${p%/*}-$${p#*/}"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(BUILD) -o dist/drydock-$${p%/*}-$${p#*/} ./cmd/drydock; \
	done
	cd dist && sha256sum drydock-* > SHA256SUMS

demo: build ## build, start, and show a cluster with two nodes and a workload
	bin/drydock demo

run: build ## run the daemon in the foreground
	bin/drydock up

test: export PATH := $(CURDIR)/bin:$(PATH)
# make check vets everything. Here it would go through Kubernetes once more: minutes of CPU with cold caches.
test: build bin/session-manager-plugin bin/csi-sanity unplayed ## all tests; those that need clients (aws, kubectl) are skipped if these are missing
	cd tools/nodebin/csi && $(GO) test -vet=off ./limit
	$(if $(RERUN),$(RERUNNING) '$(SLOW) ./...' --,$(GO) test $(SLOW) ./...) -vet=off -timeout 80m -p $(WORKERS)

# These packages take longest and mostly wait, so they come first, beside what the processors do anyway.
SLOW    = ./test/e2e ./internal/service/eks ./internal/controlplane ./internal/service/cloudformation ./test/soak
WORKERS = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

# RERUN=N, as in CI: tests that failed, if they are at most N, run once more when all others have ended. They are named at the end.
RERUNNING = $(GO) tool -modfile=go.tools.mod gotestsum --format standard-quiet --rerun-fails=1 --rerun-fails-max-failures=$(RERUN) --rerun-fails-report=bin/rerun-$@ --packages

check: lint typecheck verify-generated vulncheck ## everything CI requires besides the tests

lint: bin/lint ## gofmt, and the checks of go vet and of staticcheck (tools/lint)
	@out=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofmt these:"; echo "$$out"; exit 1; }
	$(GO) vet -vettool=$(CURDIR)/bin/lint ./...

bin/lint: $(wildcard tools/lint/*)
	cd tools/lint && $(GO) build -o $(CURDIR)/bin/lint .

typecheck: ## check the types of drydock and of nodes' programs for the other platforms of make dist, without compiling them
	$(GO) run ./tools/typecheck ./cmd/drydock $(filter-out linux/amd64,$(PLATFORMS))
	$(GO) run ./tools/typecheck ./tools/nodebin/... linux/arm64

# Generated data whose inputs are not in the repository. The models have their own checksums.
DATA = $(shell git ls-files internal/authz/data internal/service/cloudformation/SOURCE internal/service/cloudformation/schemas.jsonl internal/catalog/managedpolicies/data 'internal/catalog/*.gz' 'test/data/*.gz'; \
	git grep -l '^\# Generator:' internal/catalog/addons/manifests)

generate: ## regenerate embedded data from the reference data in AWS_DATA (tools/README.md), and the compatibility page
	@[ -d "$(AWS_DATA)/models" ] || { echo "AWS_DATA must name a folder with the reference data: see tools/README.md"; exit 1; }
	AWS_DATA=$(abspath $(AWS_DATA)) $(GO) generate ./internal/awsapi/... ./internal/awscall
	$(GO) run ./tools/authgen -in $(AWS_DATA)/authorization
	$(GO) run ./tools/policygen -in $(AWS_DATA)/managed-policies.jsonl
	$(GO) run ./tools/cfngen -in $(AWS_DATA)/cfn-schemas.jsonl
	$(GO) run ./tools/catalogen -in $(AWS_DATA)/instance-types.jsonl
	$(GO) run ./tools/pricegen
	@[ -z "$(ADDON_SOURCES)" ] || $(GO) run ./tools/addongen -in $(ADDON_SOURCES)
	$(MAKE) compat failures sums

sums: ## rewrite tools/SHA256SUMS, after generators have written data
	@sha256sum $(DATA) > tools/SHA256SUMS

compat: ## regenerate docs/compatibility.md and docs/cloudformation.md
	@$(GO) run ./tools/compat > docs/.compatibility.new && mv docs/.compatibility.new docs/compatibility.md
	@$(GO) run ./tools/compat types > docs/.cloudformation.new && mv docs/.cloudformation.new docs/cloudformation.md

failures-containers: export PATH := $(CURDIR)/bin:$(PATH)
failures-containers: build bin/session-manager-plugin ## play all failures on nodes that run containers (not run by CI)
	NODE_RUNTIME=containers REQUIRE_CLIENTS=1 $(GO) test -count=1 -v -timeout 45m ./test/e2e -run 'TestFailures$$'

failures-twins: export PATH := $(CURDIR)/bin:$(PATH)
failures-twins: build bin/session-manager-plugin ## play all failures, and ask twins of their account the same questions (not run by CI)
	TWINS=1 REQUIRE_CLIENTS=1 $(GO) test -count=1 -v -timeout 75m ./test/e2e -run 'TestFailures$$|TestTwinNeverGuessesClusters'

failures: ## regenerate docs/failures from internal/failures
	@$(GO) run ./tools/failures

verify-generated: ## fail if generated files differ from what their generators write (all of them if AWS_DATA is set)
	@$(GO) run ./tools/compat | diff -u docs/compatibility.md - || { echo "docs/compatibility.md is stale: make compat"; exit 1; }
	@$(GO) run ./tools/compat types | diff -u docs/cloudformation.md - || { echo "docs/cloudformation.md is stale: make compat"; exit 1; }
	@$(GO) run ./tools/clientgen -out /dev/stdout | diff -u internal/awscall/zz_generated_clients.go - || { echo "stale: go generate ./internal/awscall"; exit 1; }
	@$(GO) run ./tools/modelgen -unions /dev/stdout | diff -u internal/awsapi/wire/zz_generated_unions.go - || { echo "stale: go generate ./internal/awsapi/wire"; exit 1; }
	@sha256sum $(DATA) | diff -u tools/SHA256SUMS - || { echo "generated data was edited by hand, or make sums is missing"; exit 1; }
	@if [ -n "$(AWS_DATA)" ]; then $(MAKE) generate && git diff --exit-code --stat -- internal docs; fi

COMMIT ?= 7091733
fixture: ## rewrite test/data/COMMIT (default 7091733): data written by the program of that commit, which every later build must open
	@set -e; dir=$$(mktemp -d); trap "git worktree remove --force $$dir" EXIT; \
		git worktree add --detach $$dir $(COMMIT); \
		(cd $$dir && $(GO) build -o bin/drydock ./cmd/drydock); \
		$(GO) run ./tools/fixture -bin $$dir/bin/drydock -out test/data/$(COMMIT)
	$(MAKE) sums

vulncheck: ## look for known vulnerabilities in the binary's packages, using the release of golang/vulndb that tools/vulndb names
	$(GO) run ./tools/vulncheck ./cmd/drydock ./tools/nodebin/node

golden: ## rewrite golden files, then show what changed
	$(GO) test ./internal/... -update
	git diff --stat

# The scripts that need clients find them in the PATH, and those that make builds in bin.
e2e: export PATH := $(CURDIR)/bin:$(PATH)
e2e: build bin/session-manager-plugin bin/csi-sanity unplayed ## end-to-end scripts with real clients
	$(GO) test -count=1 -timeout 45m ./test/e2e

# CI has no programs that no package registry has, and builds none that take it long.
.PHONY: unplayed
unplayed: export PATH := $(CURDIR)/bin:$(PATH)
unplayed: # name the scripts that are not run because such programs are missing
	@command -v eksctl > /dev/null || echo "e2e: eksctl.txtar IS NOT RUN: there is no eksctl: make eksctl"
	@command -v cdk > /dev/null || echo "e2e: cdk.txtar IS NOT RUN: there is no cdk: make cdk"
	@command -v karpenter > /dev/null || echo "e2e: karpenter.txtar, karpenter_capacity.txtar and karpenter_ssh.txtar ARE NOT RUN: there is no karpenter: make karpenter"
	@[ -e bin/controllers/helm/helm ] || echo "e2e: containers-lbc.txtar and containers-karpenter.txtar ARE NOT RUN: there is no helm: make controllers"
	@[ -e bin/controllers/aws-load-balancer-controller/image.tar ] || echo "e2e: containers-lbc.txtar IS NOT RUN: there is no image of the AWS Load Balancer Controller: make controllers"
	@[ -e bin/controllers/karpenter/image.tar ] || echo "e2e: containers-karpenter.txtar IS NOT RUN: there is no image of Karpenter: make controllers"
	@[ -e bin/controllers/external-dns/image.tar ] || echo "e2e: containers-external-dns.txtar IS NOT RUN: there is no image of ExternalDNS: make controllers"
	@command -v terraform > /dev/null && [ -n "$$TERRAFORM_PLUGINS" ] || echo "e2e: terraform_eks.txtar and import_terraform.txtar ARE NOT RUN: they need terraform, and TERRAFORM_PLUGINS with the AWS provider"
	@command -v aws2 > /dev/null || echo "e2e: AWS CLI 2 IS NOT RUN by instance_connect.txtar: there is no aws2: make awscli2"

SCRIPTS ?= containers.*
N ?= 20
flakes: export PATH := $(CURDIR)/bin:$(PATH)
flakes: build bin/session-manager-plugin bin/csi-sanity ## run the end-to-end scripts SCRIPTS, a regular expression (default: those of nodes that run containers), N times (default 20), and count their results; the output is in bin/flakes.log
	@$(GO) test -v -count=$(N) -timeout 0 -run 'TestScripts/^($(SCRIPTS))$$' ./test/e2e > bin/flakes.log 2>&1; code=$$?; \
	awk '$$1 == "---" && $$3 ~ /^TestScripts\// { sub("TestScripts/", "", $$3); n[$$3 " " $$2]++ } END { for (k in n) print n[k], k }' bin/flakes.log | sort -k2; \
	grep -qE '^ *--- (PASS|FAIL): TestScripts/' bin/flakes.log || { echo "flakes: NOTHING RAN: SCRIPTS=$(SCRIPTS) names no script that can run here (bin/flakes.log)"; exit 1; }; exit $$code

EKSCTL ?= v0.230.0
eksctl: ## build bin/eksctl of the release EKSCTL, for e2e: from EKSCTL_SOURCE, or a clone of its repository
	@set -e; src="$(EKSCTL_SOURCE)"; if [ -z "$$src" ]; then \
		src=$$(mktemp -d); trap "rm -rf $$src" EXIT; \
		git clone -q --depth 1 --branch $(EKSCTL) https://github.com/eksctl-io/eksctl $$src; fi; \
	(cd $$src && $(GO) build -ldflags '-s -w' -o $(CURDIR)/bin/eksctl ./cmd/eksctl); bin/eksctl version

# The release of the plugin is the one that its own go.mod names.
bin/session-manager-plugin: tools/ssmplugin/go.mod
	cd tools/ssmplugin && $(GO) build -o $(CURDIR)/$@ github.com/aws/session-manager-plugin/src/sessionmanagerplugin-main

# The CSI specification's own tests, which containers-volumes.txtar runs against the EBS CSI driver.
bin/csi-sanity: tools/csisanity/go.mod
	cd tools/csisanity && $(GO) build -ldflags '-s -w' -o $(CURDIR)/$@ github.com/kubernetes-csi/csi-test/v5/cmd/csi-sanity

CDK     ?= 2.1148.1
CDK_LIB ?= 2.276.0
cdk: ## install CDK's program and library of the releases CDK and CDK_LIB into bin, for e2e: by npm
	npm install --prefix bin/cdk-npm --no-save --no-audit --no-fund aws-cdk@$(CDK) aws-cdk-lib@$(CDK_LIB) constructs@10
	echo 'module cdk-npm' > bin/cdk-npm/go.mod # go's ./... leaves out CDK's templates
	ln -sfn cdk-npm/node_modules/aws-cdk/bin/cdk bin/cdk
	bin/cdk --version

.PHONY: controllers
controllers: ## build controllers that people run as pods, with images and Helm charts, into bin/controllers, for e2e: from the Go module proxy
	$(GO) run ./tools/controllers -out bin/controllers $(CONTROLLERS)

karpenter: CONTROLLERS = karpenter
karpenter: controllers ## build bin/karpenter, the controller, for e2e: from the Go module proxy
	rm -rf bin/karpenter bin/karpenter-crds
	ln -sfn controllers/karpenter/karpenter bin/karpenter
	ln -sfn controllers/karpenter/crds bin/karpenter-crds

.PHONY: terraform
terraform: build ## run acceptance tests of Terraform's AWS provider, whose checkout is SOURCE: about ten minutes' worth, or all of SERVICES; LIST=1 lists them; PROVIDER=PROGRAM applies their configurations with a released provider
	$(GO) run ./tools/tfacc -source "$(SOURCE)" -services "$(SERVICES)" $(if $(LIST),-list) $(if $(PROVIDER),-provider "$(PROVIDER)")

AWSCLI2 ?= trixie
awscli2: ## unpack AWS CLI 2 of the Debian release AWSCLI2 into bin, for e2e: by apt, without installing it
	tools/awscli2/unpack.sh bin $(AWSCLI2)

# Kubernetes' own tests, and the images that they use, of Debian's packages and of programs built from the module. The versions are those of go.mod.
CONFORMANCE = bin/conformance
conformance-tests: ## build Kubernetes' conformance tests and their images into bin, for e2e (needs apt-get)
	@mkdir -p $(CONFORMANCE)
	tools/conformance/debian.sh $(CONFORMANCE)/debian
	cd tools/conformance && $(GO) test -c -ldflags '-s -w' -o $(CURDIR)/bin/e2e.test ./e2e
	cd tools/conformance && $(GO) build -ldflags '-s -w' -o $(CURDIR)/bin/ginkgo github.com/onsi/ginkgo/v2/ginkgo
	cd tools/conformance && $(GO) build -ldflags '-s -w' -o $(CURDIR)/$(CONFORMANCE)/ k8s.io/kubernetes/test/images/agnhost k8s.io/kubernetes/test/images/nonewprivs k8s.io/sample-apiserver
	cd tools/conformance && $(GO) build -ldflags '-s -w' -o $(CURDIR)/$(CONFORMANCE)/etcd go.etcd.io/etcd/server/v3
	cd tools/conformance && $(GO) run ./images -programs $(CURDIR)/$(CONFORMANCE) -debian $(CURDIR)/$(CONFORMANCE)/debian -sources "$$($(GO) list -m -f '{{.Dir}}' k8s.io/kubernetes)" -out $(CURDIR)/$(CONFORMANCE)/images.tar

.PHONY: conformance
conformance: export PATH := $(CURDIR)/bin:$(PATH)
conformance: build conformance-tests ## run all of Kubernetes' conformance tests on nodes that run containers: about an hour (docs/conformance.md)
	@rm -f $(CONFORMANCE)/report.json
	CONFORMANCE=all $(GO) test -count=1 -timeout 150m -v -run TestConformance ./test/e2e; status=$$?; \
		[ ! -e $(CONFORMANCE)/report.json ] || (cd tools/conformance && $(GO) run ./summary $(CURDIR)/$(CONFORMANCE)/report.json); exit $$status

soak: build ## 200 nodes join and leave at random for DRYDOCK_SOAK (10m), with faults; `make test` runs a short form
	DRYDOCK_SOAK=$${DRYDOCK_SOAK:-10m} $(GO) test -count=1 -timeout 60m -v ./test/soak

advice: build ## break 1,000 random worlds (DRYDOCK_WORLDS) and run what why prints; `make test` runs 100
	DRYDOCK_WORLDS=$${DRYDOCK_WORLDS:-1000} $(GO) test -p 1 -count=1 -timeout 120m -run TestPrintedFixesHold -v ./internal/app ./test/soak

.PHONY: packets
packets: ## compare the verdicts on 500 random networks (DRYDOCK_WORLDS) with real connections; `make test` compares 20
	DRYDOCK_WORLDS=$(or $(DRYDOCK_WORLDS),500) $(GO) test -count=1 -timeout 45m -v -run TestPacketsAgainstVerdicts ./internal/fabric

# The race detector needs everything compiled again: about four CPU minutes without the packages left out. A package is
# left out if its tests depend on the EC2 client, SSM's types or Kubernetes' API types.
RACE_HEAVY = github.com/aws/aws-sdk-go-v2/service/ec2 github.com/aws/aws-sdk-go-v2/service/ssm/types k8s.io/apimachinery/pkg/apis/meta/v1
race: export CGO_ENABLED = 1
race: ## unit tests with the race detector, of all packages where it is cheap (needs a C compiler)
	@if ! command -v $$($(GO) env CC) >/dev/null; then \
		echo "race: NOT RUN: there is no C compiler"; [ "$$REQUIRE_CLIENTS" != 1 ]; exit; fi; \
	list=$$($(GO) list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./internal/... | awk -v heavy='$(RACE_HEAVY)' ' \
		BEGIN { split(heavy, h); for (i in h) out[h[i]] } \
		$$1 ~ /\.test$$/ { sub(/\.test$$/, "", $$1); for (i = 2; i <= NF; i++) if ($$i in out) { left++; names = names " " substr($$1, index($$1, "/internal/") + 10); next } print $$1 } \
		END { print "race: " left " packages with tests are left out (CONTRIBUTING.md):" names > "/dev/stderr" }'); \
	[ -n "$$list" ] && $(if $(RERUN),$(RERUNNING) "$$list" --,$(GO) test $$list) -vet=off -race -short -timeout 20m

race-e2e: ## the scripts of e2e and the short soak, with the race detector in the program (needs a C compiler; about an hour on two cores)
	@rm -rf bin/race && mkdir -p bin/race
	CGO_ENABLED=1 $(GO) build -race -o bin/race/drydock ./cmd/drydock
	GORACE='log_path=$(CURDIR)/bin/race/report exitcode=0' DRYDOCK_BIN='$(CURDIR)/bin/race/drydock' \
		$(GO) test -count=1 -timeout 120m -parallel 2 ./test/e2e ./test/soak
	@cat bin/race/report.* 2>/dev/null && exit 1 || echo 'no race was seen'

bench: build ## benchmarks; docs/performance.md explains the figures
	$(GO) test -run '^$$' -bench . -benchmem $(LIGHT)
	DRYDOCK_BENCH=1 $(GO) test -count=1 -timeout 30m -v -run TestBench ./test/bench

fuzz: ## every fuzz target for T (default 30s) each
	@set -e; for pkg in $(LIGHT); do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(T) $$pkg; \
		done; \
	done

clean: ## remove build products
	rm -rf bin dist
