# Everything here runs on a Debian machine with Go, make and a clone; what else helps is named by "make help".

SHELL := /bin/sh
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/cluster-api-csr-approver
FUZZTIME ?= 1m
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# The race detector needs a C compiler.
RACE := $(if $(shell command -v gcc),-race,)
# Tests with processes of their own run one after the other, so that they do not disturb each other's times.
PROCESSES := ./test/bed ./test/e2e
UNITS = $(shell go list ./... | grep -v -e /test/bed$$ -e /test/e2e$$)

.DEFAULT_GOAL := help

.PHONY: help
help: ## This list, and what this machine lacks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@./test/machine.sh

.PHONY: demo
demo: kubernetes ## The product's main job on real parts: real kubelets, a real API server, a simulated OpenStack
	@go run ./test/demo

.PHONY: test
test: kubernetes ## All tests
	go vet ./...
	go test $(RACE) $(UNITS)
	go test -count=1 -timeout 15m ./test/bed
	go test -count=1 -timeout 15m ./test/e2e

.PHONY: mutants
mutants: ## Breaks each rule on purpose and sees its test fail; MUTANTS='verdict-* request-*' takes only some
	go run ./test/mutants $(foreach m,$(MUTANTS),'$(m)')

.PHONY: fuzz
fuzz: ## Fuzzes every parser for FUZZTIME each (default 1m)
	@set -e; for target in \
		request/FuzzParse request/FuzzSigned verdict/FuzzJudge owner/FuzzForms \
		fleet/FuzzHarden openstack/FuzzParseCredential; do \
		echo "fuzzing $$target for $(FUZZTIME)"; \
		go test ./internal/$${target%/*} -run '^$$' -fuzz "^$${target#*/}$$" -fuzztime $(FUZZTIME); \
	done

.PHONY: lint
lint: $(CACHE)/golangci-lint-$(shell cksum < tools/golangci-lint/go.sum | cut -d ' ' -f 1) ## gofmt, go vet and golangci-lint
	@$< run ./...

# Built once and kept outside the clone, like Kubernetes.
$(CACHE)/golangci-lint-%:
	@mkdir -p $(CACHE)
	@echo "golangci-lint is built from its Go module, once on this machine: about 3 minutes" >&2
	@go build -C tools/golangci-lint -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: build
build: ## The program, in bin/
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X $(shell go list -m)/internal/version.Version=$(VERSION)" -o bin/ ./cmd/...

.PHONY: kubernetes
kubernetes: ## Builds the real Kubernetes that tests and demo use, once on a machine
	@./test/machine.sh
	@./test/kubernetes/build.sh >/dev/null
