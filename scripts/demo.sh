#!/usr/bin/env bash
# Trains ResNet-18 on rendered JPEG images with two workers and shows what came out; then kills a worker of another training, to show
# what is said. The images are rendered once, into demo-data/; results go to runs/demo/. Arguments are handed to `xoe train`.
# Ends with `demo: accuracy=... images_per_s=... curve=... timeline=...`; exits 1 below 90 % accuracy.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

data=demo-data
run=runs/demo
images=1600
validation=400
classes=3
wanted=0.90
training=(--model resnet18 --image-size 32 --batch 16 --epochs 5 --lr 0.4)
killed=$run/killed.txt

# The reason stands above already.
stop() {
  [[ $1 == 130 ]] && exit 130
  die "the training failed"
}

# A training that has no end, whose rank 1 is killed: prints what the launcher and the other rank say.
show_a_killed_rank() {
  # shellcheck disable=SC2016
  xoe run -np 2 --no-tag-output sh -c 'if [ "$XOE_RANK" = 1 ]; then (sleep 3; kill -KILL $$) & fi
    exec xoe train --synthetic --model mlp --image-size 16 --batch 8 --steps 1000000000 --report-every 1000000' >"$killed" 2>&1 ||
    [[ $? == 137 ]] || die "the killed training ended otherwise: see $killed"
  grep -E '^(error|xoe run): ' "$killed" || die "nothing names the killed rank: see $killed"
}

cd "$root"
if [[ -x build/release/bin/xoe-trainer ]]; then
  say "trains for about a minute on two processors, then kills a worker"
else
  say "6 to 11 minutes on two processors: downloads and a build, a minute of training, then a worker is killed"
fi
scripts/setup.sh release:xoe,xoe-train,xoe-data
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
xoe run -np 2 --no-tag-output xoe train "${training[@]}" --data "$data" --run-dir "$run" --summary demo "$@" |
  tee "$run/output.txt" || stop $?

summary=$(grep '^demo: ' "$run/output.txt" | tail -n 1) || die "the training ended without its result"
accuracy=$(sed -n 's/.*accuracy=\([0-9.]*\).*/\1/p' <<<"$summary")
awk -v got="${accuracy:-0}" -v wanted="$wanted" 'BEGIN { exit !(got >= wanted) }' ||
  die "accuracy $accuracy is below $wanted"

say "now a worker of another training is killed"
show_a_killed_rank
echo "$summary"
