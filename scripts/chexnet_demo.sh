#!/usr/bin/env bash
# CheXNet on phantoms whose best AUROC is known, with two workers: renders them into demo-data/phantoms, trains examples/chexnet, and writes
# a page of AUROCs beside the ideal observer's. Results go to runs/chexnet/; an interrupted demo goes on after its last epoch.
# Exits 1 below 95 % of the ideal observer's AUROC above 0.5, or where a finding is significantly above it. Arguments are handed to the example.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

data=demo-data/phantoms
run=runs/chexnet
images=80000
wanted=0.95

cd "$root"
scripts/setup.sh release:xoe,xoe-data,xoe-report,example_chexnet
PATH=$root/build/release/bin:$PATH

# Written when the images are complete, with what they were made from.
recipe="images=$images size=32"
if [[ ! -f $data.recipe || $(<"$data.recipe") != "$recipe" ]]; then
  say "rendering phantoms into $data/"
  rm -rf "$data"
  xoe data make-xray --images "$images" --size 32 --seed 1 "$data" || die "the phantoms could not be made"
  echo "$recipe" >"$data.recipe"
fi

if [[ -f $run/scores.json ]]; then rm -rf "$run"; fi
say "training with two workers; the run folder is $run/"
xoe run -np 2 --no-tag-output example_chexnet "$data" --run "$run" --model detector --image-size 32 --epochs 8 --lr 0.01 "$@" ||
  die "the training failed"
xoe report "$run/scores.json" --require "$wanted"
