# The front door. Every target prepares what it needs (packages, .venv, build) and is quick when all is there.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo pool-demo chexnet-demo test test-all test-peers test-frameworks test-kubernetes mutants bench bench-models soak lint format docs setup build asan tsan fuzz clean

help:  ## show this list
	@echo "Xoe: distributed data-parallel training. Targets:"
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-20s %s\n", $$1, $$2}'

demo:  ## train ResNet-18 on rendered images with two workers, to 90 % accuracy
	@scripts/demo.sh

pool-demo:  ## a pool of GPUs with ten simulated users for a minute, and its web page
	@scripts/pool_demo.sh

chexnet-demo:  ## train CheXNet on phantoms with two workers, to 95 % of the best that is possible
	@scripts/chexnet_demo.sh

test:  ## build all, and run the tests that show that it works: 15 to 26 minutes the first time; HOUSE=pool: of one house
	@scripts/test.sh $(if $(HOUSE),--house $(HOUSE))

test-all:  ## all tests: those of `make test`, the long ones, with peers and servers, under the sanitizers
	@scripts/test.sh all

test-peers:  ## tests with TensorFlow, MPI, ssh, Slurm and Docker
	@scripts/test.sh peers

test-frameworks:  ## tests of the bindings of TensorFlow, Keras and JAX, which it installs
	@scripts/test.sh frameworks

test-kubernetes:  ## tests of manifests and of trainings in a pretended cluster, whose programs it downloads and builds
	@scripts/test.sh kubernetes

mutants:  ## break the source in many places, one after the other, and show that a test notices each time
	@scripts/setup.sh
	@scripts/mutants.py

bench:  ## compare with Open MPI, MPICH, Gloo, other designs of engines, tf.data, DALI, side by side
	@scripts/bench.sh

bench-models:  ## each network: images/s, memory, equality to torchvision's; ResNet-50 beside PyTorch
	@scripts/bench.sh models

soak:  ## random programs against the engine, 100,000 of each sort: some hours
	@scripts/soak.sh

lint:  ## formatting, clang-tidy, shellcheck, include direction
	@scripts/lint.sh

format:  ## rewrite the C++ files as .clang-format says
	@scripts/format.sh

docs:  ## build the documentation site into build/docs/html
	@scripts/docs.sh

setup:  ## packages and Python environment only
	@scripts/setup.sh

build:  ## build build/release
	@scripts/setup.sh release

asan:  ## tests under the address and undefined-behaviour sanitizers
	@scripts/test.sh asan

tsan:  ## tests under the thread sanitizer
	@scripts/test.sh tsan

fuzz:  ## build the fuzz targets and run each for a minute
	@scripts/fuzz.sh

clean:  ## remove the build folders; .venv, demo-data and runs stay
	@rm -rf build
