#!/usr/bin/env bash
# Trains ResNet-18 on rendered JPEG images with two workers and shows what came out. The images are rendered once, into
# demo-data/; results go to runs/demo/. Arguments are handed to `xoe train`.
# Ends with `demo: accuracy=... images_per_s=... curve=... timeline=...`; exits 1 below 90 % accuracy.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

data=demo-data
run=runs/demo
images=3000
validation=600
classes=10
wanted=0.90

# The reason stands above already.
stop() {
  [[ $1 == 130 ]] && exit 130
  die "the training failed"
}

cd "$root"
scripts/setup.sh release:xoe,xoe-train,xoe-data,xoe-doctor,xoe-report,xoe-timeline
PATH=$root/build/release/bin:$PATH

# Written when the images are complete, with what they were made from.
recipe="images=$images validation=$validation classes=$classes"
if [[ ! -f $data/recipe || $(<"$data/recipe") != "$recipe" ]]; then
  say "rendering $((images + validation)) images into $data/"
  rm -rf "$data"
  xoe data make --images "$images" --validation "$validation" --classes "$classes" --shards 4 "$data" ||
    die "the images could not be made"
  echo "$recipe" >"$data/recipe"
fi

say "training ResNet-18 with two workers; the run folder is $run/"
rm -rf "$run"
mkdir -p "$run"
xoe run -np 2 --no-tag-output xoe train --model resnet18 --image-size 64 --epochs 10 --lr 0.2 --data "$data" --run-dir "$run" \
  --timeline "$run/timeline.json" --summary demo "$@" | tee "$run/output.txt" || stop $?

summary=$(grep '^demo: ' "$run/output.txt" | tail -n 1) || die "the training ended without its result"
accuracy=$(sed -n 's/.*accuracy=\([0-9.]*\).*/\1/p' <<<"$summary")
awk -v got="${accuracy:-0}" -v wanted="$wanted" 'BEGIN { exit !(got >= wanted) }' ||
  die "accuracy $accuracy is below $wanted"
