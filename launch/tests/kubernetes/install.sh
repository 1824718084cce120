#!/usr/bin/env bash
# Builds the programs of the pretended cluster from their Go modules, into build/peers/kubernetes, unless they are there:
# kube-apiserver, kube-controller-manager, kubectl, and the controllers of JobSet and Kubeflow Trainer; for the test of a real node
# also kubelet, kube-scheduler and network plug-ins; at the versions of modules/go.mod. Downloads about 250 MB and compiles for
# twelve minutes or so, two of them for that node. Needs Go; ends with 77 and the reason where it cannot.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
folder=$root/build/peers/kubernetes
mpi_operator=github.com/kubeflow/mpi-operator@v0.6.0 # its definition only

refuse() {
  echo "skipped: $*"
  exit 77
}

wanted=$(cat "$here/install.sh" "$here/modules/go.mod" "$here/modules/go.sum" "$here"/modules/{trainer,cni}/go.* "$here/modules/yaml-to-json/main.go" | sha256sum)
if [[ -f $folder/installed && $(<"$folder/installed") == "$wanted" ]]; then exit; fi
command -v go >/dev/null || refuse "no Go; version $(sed -n 's/^go //p' "$here/modules/go.mod") or newer builds Kubernetes' programs"
mkdir -p "$folder"
rm -f "$folder/installed"
cd "$here/modules"

module_folder() { go mod download -json "$@" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'; }

for module in . trainer cni; do
  (cd $module && go mod download) || refuse "the Go modules cannot be downloaded"
done
build() {
  echo "xoe: building $1" >&2
  nice go build -trimpath -ldflags "-s -w" -o "$folder/$1" "$2"
}
build yaml-to-json ./yaml-to-json
build jobset-controller sigs.k8s.io/jobset
(cd trainer && build trainer-controller github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager)
for name in kubectl kube-apiserver kube-controller-manager kube-scheduler kubelet; do build $name k8s.io/kubernetes/cmd/$name; done
for plugin in main/bridge main/loopback ipam/host-local; do
  (cd cni && build "cni/${plugin#*/}" github.com/containernetworking/plugins/plugins/$plugin)
done

jobset=$(module_folder sigs.k8s.io/jobset)/config/components
trainer=$(cd trainer && module_folder github.com/kubeflow/trainer/v2)/manifests/base
mpi=$(cd / && module_folder $mpi_operator)/manifests/base
"$folder/yaml-to-json" "$jobset"/crd/bases/*.yaml "$trainer"/crds/trainer*.yaml "$mpi"/kubeflow.org_mpijobs.yaml >"$folder/definitions.json"
"$folder/yaml-to-json" "$jobset/webhook/manifests.yaml" >"$folder/jobset-webhooks.json"
"$folder/yaml-to-json" "$trainer/webhook/manifests.yaml" >"$folder/trainer-webhooks.json"
cp --no-preserve=mode "$(module_folder k8s.io/kubernetes)/api/openapi-spec/swagger.json" "$folder/swagger.json"
echo "$wanted" >"$folder/installed"
