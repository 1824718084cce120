"""What a pod's manifest says with references: variables, and the files of its volumes."""

import base64
import re


class Unsupported(Exception):
    """The pretended kubelet cannot do what a manifest asks for."""


class Missing(Exception):
    """A Secret or ConfigMap that is not there yet; a kubelet tries again."""


def field(pod, path, address):
    """The downward API: metadata.*, spec.nodeName, status.podIP."""
    meta = pod["metadata"]
    if match := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return meta.get(match[1], {}).get(match[2], "")
    known = {"metadata.name": meta["name"], "metadata.namespace": meta["namespace"], "metadata.uid": meta["uid"],
             "spec.nodeName": pod["spec"]["nodeName"], "status.podIP": address}
    if path not in known:
        raise Unsupported(f"the field {path}")
    return known[path]


def data_of(api, namespace, kind, name, optional=False):
    """{key: bytes} of a Secret or ConfigMap."""
    found = api.find(f"/api/v1/namespaces/{namespace}/{kind}/{name}")
    if found is None and not optional:
        raise Missing(f"{kind.removesuffix('s')} {name} not found")
    data = (found or {}).get("data") or {}
    return {key: base64.b64decode(text) if kind == "secrets" else text.encode() for key, text in data.items()}


def expand(text, variables):
    """$(NAME) of a command, an argument or a variable; $$ is $."""
    return re.sub(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)",
                  lambda match: "$" if match[0] == "$$" else variables.get(match[1], match[0]), text)


def variables_of(api, pod, container, address):
    namespace, found = pod["metadata"]["namespace"], {}
    for source in container.get("envFrom") or ():
        for key, kind in (("secretRef", "secrets"), ("configMapRef", "configmaps")):
            if key in source:
                data = data_of(api, namespace, kind, source[key]["name"], source[key].get("optional"))
                found |= {source.get("prefix", "") + name: value.decode() for name, value in data.items()}
    for entry in container.get("env") or ():
        source = entry.get("valueFrom")
        if source is None:
            found[entry["name"]] = expand(entry.get("value", ""), found)
        elif "fieldRef" in source:
            found[entry["name"]] = field(pod, source["fieldRef"]["fieldPath"], address)
        elif "secretKeyRef" in source or "configMapKeyRef" in source:
            kind = "secrets" if "secretKeyRef" in source else "configmaps"
            reference = source.get("secretKeyRef") or source["configMapKeyRef"]
            data = data_of(api, namespace, kind, reference["name"], reference.get("optional"))
            if reference["key"] in data:
                found[entry["name"]] = data[reference["key"]].decode()
        else:
            raise Unsupported(f"the variable {entry['name']} from {', '.join(source)}")
    return found


def _of_object(api, namespace, kind, source):
    data = data_of(api, namespace, kind, source.get("name") or source.get("secretName"), source.get("optional"))
    if "items" in source:
        return {item["path"]: data[item["key"]] for item in source["items"]}
    return data


def _token(api, pod, source):
    account = pod["spec"].get("serviceAccountName", "default")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
               "spec": {"audiences": [source["audience"]] if "audience" in source else [],
                        "expirationSeconds": source.get("expirationSeconds", 3600),
                        "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"],
                                           "uid": pod["metadata"]["uid"]}}}
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/serviceaccounts/{account}/token"
    return {source["path"]: api.call("POST", path, request)["status"]["token"].encode()}


def files_of(api, pod, volume):
    """{path: bytes} of a volume that Kubernetes fills; None where it is of another sort."""
    namespace = pod["metadata"]["namespace"]
    if "secret" in volume:
        return _of_object(api, namespace, "secrets", volume["secret"])
    if "configMap" in volume:
        return _of_object(api, namespace, "configmaps", volume["configMap"])
    if "projected" not in volume:
        return None
    found = {}
    for source in volume["projected"]["sources"]:
        if "secret" in source:
            found |= _of_object(api, namespace, "secrets", source["secret"])
        elif "configMap" in source:
            found |= _of_object(api, namespace, "configmaps", source["configMap"])
        elif "serviceAccountToken" in source:
            found |= _token(api, pod, source["serviceAccountToken"])
        elif "downwardAPI" in source:
            found |= {item["path"]: field(pod, item["fieldRef"]["fieldPath"], "").encode() for item in source["downwardAPI"]["items"]}
        else:
            raise Unsupported(f"the volume {volume['name']} from {', '.join(source)}")
    return found
