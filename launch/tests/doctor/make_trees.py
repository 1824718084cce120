#!/usr/bin/env python3
"""Writes recorded trees of /proc, /sys, /dev and /etc for the tests of `xoe doctor`.

  launch/tests/doctor/make_trees.py FOLDER

FOLDER/bare: a machine with two sockets. FOLDER/container: Docker with its default /dev/shm, under cgroup v2 limits.
FOLDER/pod: a pod of Kubernetes in which much is wrong. FOLDER/good-pod: one of a JobSet in which nothing is.
FOLDER/node: a node of a cluster, with what users of clusters meet. FOLDER/wsl: Linux under Windows.
FOLDER/vm: a VMware machine with two GPUs and two ConnectX-6 ports, one RoCE, one InfiniBand.
FOLDER/config: configuration spaces of PCI functions alone, as seeds for the fuzz target.
"""

import pathlib
import shutil
import struct
import sys

GIB = 1 << 30
ROOT_PORT, ENDPOINT = 4, 0
ACS, ATS, AER = 0x000D, 0x000F, 0x0001


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        shutil.rmtree(self.root, ignore_errors=True)

    def put(self, path, content):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        else:
            file.write_text(f"{content}\n")

    def link(self, path, target):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)

    def folder(self, path):
        (self.root / path).mkdir(parents=True, exist_ok=True)


def config_space(vendor, device, pci_class, port_type, width=16, most_width=16, extended=(), bridge=False):
    """4096 bytes: a header, the PCI Express capability, and (id, 16-bit capability, 16-bit control) extended ones."""
    space = bytearray(4096)
    struct.pack_into("<HH", space, 0, vendor, device)
    struct.pack_into("<H", space, 6, 0x10)
    space[0x0A] = pci_class >> 8 & 0xFF
    space[0x0B] = pci_class >> 16
    space[0x0E] = 1 if bridge else 0
    space[0x34] = 0x40
    struct.pack_into("<BB", space, 0x40, 0x01, 0x60)  # power management, then PCI Express
    struct.pack_into("<BBH", space, 0x60, 0x10, 0, port_type << 4 | 2)
    struct.pack_into("<I", space, 0x60 + 0x0C, most_width << 4 | 4)
    struct.pack_into("<H", space, 0x60 + 0x12, width << 4 | 4)
    at = 0x100
    for number, (identifier, capability, control) in enumerate(extended):
        following = at + 0x40 if number + 1 < len(extended) else 0
        struct.pack_into("<I", space, at, following << 20 | 1 << 16 | identifier)
        struct.pack_into("<HH", space, at + 4, capability, control)
        at += 0x40
    return bytes(space)


def add_function(tree, path, vendor, device, pci_class, driver, numa_node=0, **config):
    """A PCI function; path: from its root complex, "pci0000:00/0000:00:15.0/0000:03:00.0"."""
    address = path.rsplit("/", 1)[1]
    folder = f"sys/devices/{path}"
    tree.put(f"{folder}/vendor", f"0x{vendor:04x}")
    tree.put(f"{folder}/device", f"0x{device:04x}")
    tree.put(f"{folder}/class", f"0x{pci_class:06x}")
    tree.put(f"{folder}/numa_node", numa_node)
    tree.put(f"{folder}/config", config_space(vendor, device, pci_class, **config))
    if driver:
        tree.link(f"{folder}/driver", f"/sys/bus/pci/drivers/{driver}")
    tree.link(f"sys/bus/pci/devices/{address}", f"../../../devices/{path}")
    return address


def add_interface(tree, name, state="up", speed=None, mtu=1500, kind=1, pci=None, driver=None, dev_port=0):
    folder = f"sys/class/net/{name}"
    tree.put(f"{folder}/type", kind)
    tree.put(f"{folder}/operstate", state)
    tree.put(f"{folder}/mtu", mtu)
    if state == "up":
        tree.put(f"{folder}/carrier", 1)
    if speed is not None:
        tree.put(f"{folder}/speed", speed)
    if pci:
        tree.link(f"{folder}/device", f"../../../bus/pci/devices/{pci}")
        tree.put(f"sys/bus/pci/devices/{pci}/net/{name}/dev_port", dev_port)
    elif driver:
        tree.link(f"{folder}/device/driver", f"/sys/bus/virtio/drivers/{driver}")


def add_addresses(tree, addresses, default):
    """addresses: (interface, "10.1.0.5", bits); default: the interface of the default route."""
    def as_hex(numbers):
        return "".join(f"{number:02X}" for number in reversed(numbers))

    routes = ["Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT"]
    if default:
        routes.append(f"{default} 00000000 01010A0A 0003 0 0 0 00000000 0 0 0")
    trie = ["Local:", "  +-- 0.0.0.0/0 3 0 5", "        |-- 127.0.0.1", "           /32 host LOCAL"]
    for interface, address, bits in addresses:
        mask = [(0xFFFFFFFF << 32 - bits >> shift) & 0xFF for shift in (24, 16, 8, 0)]
        network = [int(part) & m for part, m in zip(address.split("."), mask, strict=True)]
        routes.append(f"{interface} {as_hex(network)} 00000000 0001 0 0 0 {as_hex(mask)} 0 0 0")
        trie += [f"     |-- {address}", "        /32 host LOCAL"]
    tree.put("proc/net/route", "\n".join(routes))
    tree.put("proc/net/fib_trie", "\n".join(trie))
    tree.put("proc/net/if_inet6", "00000000000000000000000000000001 01 80 10 80       lo")


def add_base(tree, hostname, sockets, cores, memory, flags, memlock="unlimited", nofile=65536, processes=500000,
             seccomp=0, kernel="6.1.0-18-amd64", ptrace=1):
    count = sockets * cores
    tree.put("etc/hostname", hostname)
    tree.put("proc/sys/kernel/osrelease", kernel)
    tree.put("proc/sys/kernel/yama/ptrace_scope", ptrace)
    tree.put("proc/cpuinfo", "\n".join(
        f"processor\t: {cpu}\nmodel name\t: Test Processor 9000\nflags\t\t: {flags}\n" for cpu in range(count)))
    tree.put("proc/meminfo", f"MemTotal:       {memory >> 10} kB\nMemFree:        {memory >> 12} kB\n"
                             f"MemAvailable:   {memory >> 11} kB")
    tree.put("proc/self/status", f"Name:\tdoctor\nCpus_allowed_list:\t0-{count - 1}\nSeccomp:\t{seccomp}")
    tree.put("proc/self/limits",
             "Limit                     Soft Limit           Hard Limit           Units\n"
             f"Max processes             {processes}               {processes}               processes\n"
             f"Max open files            {nofile}                1048576              files\n"
             f"Max locked memory         {memlock}            {memlock}            bytes")
    tree.put("sys/devices/system/cpu/online", f"0-{count - 1}")
    for cpu in range(count):
        tree.put(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", cpu // cores)
        tree.put(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", cpu)
    for node in range(sockets):
        folder = f"sys/devices/system/node/node{node}"
        tree.put(f"{folder}/cpulist", f"{node * cores}-{(node + 1) * cores - 1}")
        tree.put(f"{folder}/meminfo", f"Node {node} MemTotal:       {memory // sockets >> 10} kB")
    tree.put("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
    tree.put("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force")
    tree.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 0)
    add_interface(tree, "lo", state="unknown", mtu=65536, kind=772)


def add_port(tree, device, port, pci, link_layer, state, physical, rate, ndev=None):
    card = f"sys/class/infiniband/{device}"
    tree.put(f"{card}/hca_type", "MT4123")
    tree.put(f"{card}/fw_ver", "20.35.1012")
    if port == 1:
        tree.link(f"{card}/device", f"../../../bus/pci/devices/{pci}")
    folder = f"{card}/ports/{port}"
    tree.put(f"{folder}/state", state)
    tree.put(f"{folder}/phys_state", physical)
    tree.put(f"{folder}/rate", rate)
    tree.put(f"{folder}/link_layer", link_layer)
    tree.folder(f"{folder}/gid_attrs/ndevs")
    if ndev:
        tree.put(f"{folder}/gid_attrs/ndevs/0", ndev)


WIDE = "fpu sse sse2 sse4_1 avx avx2 fma f16c avx512f avx512bw avx512dq avx512_bf16"


def make_bare(root):
    tree = Tree(root)
    add_base(tree, "bare", sockets=2, cores=4, memory=128 * GIB, flags=WIDE, ptrace=0)
    tree.put("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=67108864k 0 0")
    tree.put("proc/self/cgroup", "0::/user.slice/user-1000.slice/session-1.scope")
    tree.put("proc/1/cgroup", "0::/init.scope")
    tree.put("sys/fs/cgroup/cgroup.controllers", "cpu io memory pids")
    tree.put("sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope/memory.max", "max")
    tree.put("sys/fs/cgroup/user.slice/user-1000.slice/session-1.scope/cpu.max", "max 100000")
    tree.put("sys/class/dmi/id/sys_vendor", "Dell Inc.")
    tree.put("sys/class/dmi/id/product_name", "PowerEdge R750")
    card = add_function(tree, "pci0000:16/0000:16:02.0/0000:17:00.0", 0x15B3, 0x1017, 0x020000, "mlx5_core",
                        port_type=ENDPOINT)
    add_interface(tree, "eno1", speed=25000, pci=card)
    add_interface(tree, "eno2", state="down", speed=-1, driver="igb")
    add_interface(tree, "docker0", state="down", kind=1)
    add_addresses(tree, [("eno1", "10.10.0.7", 16), ("docker0", "172.17.0.1", 16)], "eno1")


def make_container(root):
    tree = Tree(root)
    add_base(tree, "3f2a1b", sockets=1, cores=8, memory=64 * GIB, flags=WIDE + " hypervisor", memlock=65536,
             nofile=1024, seccomp=2)
    tree.put(".dockerenv", "")
    tree.put("proc/self/mounts", "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0")
    tree.put("proc/self/cgroup", "0::/")
    tree.put("proc/1/cgroup", "0::/")
    tree.put("sys/fs/cgroup/cgroup.controllers", "cpu memory pids")
    tree.put("sys/fs/cgroup/memory.max", 8 * GIB)
    tree.put("sys/fs/cgroup/memory.current", GIB)
    tree.put("sys/fs/cgroup/cpu.max", "250000 100000")
    tree.put("sys/fs/cgroup/pids.max", 100)
    tree.put("sys/class/dmi/id/sys_vendor", "QEMU")
    tree.put("sys/class/dmi/id/product_name", "Standard PC (Q35 + ICH9, 2009)")
    tree.put("etc/resolv.conf", "nameserver 127.0.0.11\noptions ndots:0")
    add_interface(tree, "eth0", speed=10000, driver="veth")
    add_addresses(tree, [("eth0", "172.17.0.2", 16)], "eth0")


def add_pod(tree, hostname, cpus, memory, variables, resolv, hosts, mounts, uid, user="", mtu=1450):
    add_base(tree, hostname, sockets=1, cores=8, memory=64 * GIB, flags=WIDE, seccomp=2)
    variables = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", **variables}
    tree.put("proc/self/environ", "".join(f"{name}={value}\0" for name, value in variables.items()).encode())
    tree.put("proc/self/mounts", "\n".join(f"{kind} {at} {kind} {options} 0 0" for at, kind, options in mounts))
    tree.put("proc/self/status", f"Name:\tdoctor\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nCpus_allowed_list:\t0-7\nSeccomp:\t2")
    tree.put("proc/self/cgroup", "0::/")  # a name space of control groups hides the pod's
    tree.put("proc/1/cgroup", "0::/")
    tree.put("sys/fs/cgroup/cgroup.controllers", "cpu memory pids")
    tree.put("sys/fs/cgroup/cpu.max", f"{cpus * 100000} 100000")
    tree.put("sys/fs/cgroup/memory.max", memory)
    tree.put("etc/passwd", f"root:x:0:0::/:/bin/sh\n{user}")
    tree.put("etc/resolv.conf", resolv)
    tree.put("etc/hosts", f"127.0.0.1 localhost\n{hosts}")
    add_interface(tree, "eth0", speed=10000, driver="veth", mtu=mtu)
    add_addresses(tree, [("eth0", "10.244.1.7", 24)], "eth0")


def make_pod(root):
    tree = Tree(root)
    variables = {"PET_NPROC_PER_NODE": 4, "OMP_NUM_THREADS": 8, "JOB_COMPLETION_INDEX": 1,
                 "NVIDIA_VISIBLE_DEVICES": "GPU-5ad4a1b2", "HOME": "/",
                 "XOE_RENDEZVOUS_SECRET_FILE": "/etc/xoe/secret"}
    mounts = [("/", "overlay", "ro,relatime"), ("/dev/shm", "tmpfs", "rw,nosuid,size=65536k")]
    add_pod(tree, "train-1", cpus=2, memory=GIB, variables=variables, resolv="nameserver 192.168.1.1\nsearch example.org",
            hosts="10.244.1.7 train-1", mounts=mounts, uid=1234)
    tree.put("etc/xoe/secret", "short")


def make_good_pod(root):
    tree = Tree(root)
    variables = {"PET_NPROC_PER_NODE": 4, "JOB_COMPLETION_INDEX": 1, "HOME": "/tmp",
                 "XOE_RENDEZVOUS_SECRET_FILE": "/etc/xoe/secret"}
    mounts = [("/", "overlay", "ro,relatime"), ("/dev/shm", "tmpfs", "rw,size=4194304k"), ("/tmp", "tmpfs", "rw")]
    cluster = "nameserver 10.96.0.10\nsearch team.svc.cluster.local svc.cluster.local cluster.local\noptions ndots:5"
    add_pod(tree, "train-workers-0-1", cpus=8, memory=32 * GIB, variables=variables, resolv=cluster,
            hosts="10.244.1.7 train-workers-0-1.train.team.svc.cluster.local train-workers-0-1", mounts=mounts, uid=65532,
            user="xoe:x:65532:65532::/tmp:/bin/sh")
    tree.put("etc/xoe/secret", "0123456789abcdef0123456789abcdef")


def make_vm(root):
    tree = Tree(root)
    add_base(tree, "gpuvm", sockets=1, cores=16, memory=256 * GIB, flags=WIDE + " hypervisor", memlock=8388608)
    tree.put("proc/self/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0")
    tree.put("proc/self/cgroup", "0::/user.slice")
    tree.put("proc/1/cgroup", "0::/init.scope")
    tree.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14")
    tree.put("sys/class/dmi/id/sys_vendor", "VMware, Inc.")
    tree.put("sys/class/dmi/id/product_name", "VMware7,1")
    complex_ = "pci0000:00"
    acs_off, acs_on = (ACS, 0x5F, 0x00), (ACS, 0x5F, 0x1D)
    for bridge, extended in (("0000:00:15.0", [acs_off]), ("0000:00:16.0", [(AER, 0, 0), acs_off]),
                             ("0000:00:17.0", [(AER, 0, 0), acs_on]), ("0000:00:18.0", [(AER, 0, 0)])):
        add_function(tree, f"{complex_}/{bridge}", 0x15AD, 0x07A0, 0x060400, "pcieport", port_type=ROOT_PORT,
                     extended=extended, bridge=True)
    for way in ("0000:00:15.0/0000:03:00.0", "0000:00:16.0/0000:0b:00.0"):
        add_function(tree, f"{complex_}/{way}", 0x10DE, 0x20B0, 0x030200, "nvidia", port_type=ENDPOINT)
    roce = add_function(tree, f"{complex_}/0000:00:17.0/0000:13:00.0", 0x15B3, 0x101B, 0x020000, "mlx5_core",
                        port_type=ENDPOINT, extended=[(AER, 0, 0), (ATS, 0x20, 0x8000)])
    infiniband = add_function(tree, f"{complex_}/0000:00:18.0/0000:1b:00.0", 0x15B3, 0x101B, 0x020700, "mlx5_core",
                              port_type=ENDPOINT, width=8, extended=[(AER, 0, 0), (ATS, 0x20, 0x0000)])
    add_interface(tree, "ens192", speed=10000, driver="vmxnet3")
    add_interface(tree, "ens224np0", speed=100000, mtu=9000, pci=roce)
    add_interface(tree, "ib0", speed=200000, mtu=2044, kind=32, pci=infiniband)
    add_addresses(tree, [("ens192", "10.1.0.5", 24), ("ens224np0", "10.2.0.5", 24), ("ib0", "10.3.0.5", 24)], "ens192")
    add_port(tree, "mlx5_0", 1, roce, "Ethernet", "4: ACTIVE", "5: LinkUp", "100 Gb/sec (4X EDR)", ndev="ens224np0")
    add_port(tree, "mlx5_1", 1, infiniband, "InfiniBand", "4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)")
    add_port(tree, "mlx5_1", 2, infiniband, "InfiniBand", "1: DOWN", "2: Polling", "10 Gb/sec (4X SDR)")
    tree.put("dev/infiniband/uverbs0", "")
    tree.put("dev/infiniband/uverbs1", "")


def make_node(root):
    """A node of a cluster: home directories of a filer, InfiniBand that TCP takes, drivers of two origins, SELinux."""
    tree = Tree(root)
    add_base(tree, "node17", sockets=1, cores=8, memory=256 * GIB, flags=WIDE)
    nfs = "rw,relatime,vers=3,namlen=255,timeo=600,retrans=2,sec=sys,mountproto=tcp,addr=10.9.0.1"
    tree.put("proc/self/mounts", "\n".join((
        "/dev/sda2 / ext4 rw,relatime 0 0",
        "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=134217728k 0 0",
        f"filer.example.org:/ifs/home /home nfs {nfs},rsize=131072,wsize=524288,hard,proto=tcp,nolock,local_lock=all 0 0",
        f"filer.example.org:/ifs/old\\040data /old\\040data nfs {nfs},rsize=8192,wsize=8192,soft,noac,proto=udp,"
        "local_lock=none 0 0",
        "10.9.0.9@o2ib:/scratch /scratch lustre rw,flock,lazystatfs 0 0")))
    home = "/home"
    tree.put("proc/self/environ", f"CONDA_PREFIX={home}/conda/envs/torch\0TMPDIR=/scratch/tmp\0HOME={home}\0")
    tree.put("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7")
    tree.put("proc/1/cgroup", "0::/init.scope")
    tree.put("sys/fs/cgroup/cgroup.controllers", "cpu memory pids")
    tree.put("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/cpu.max", "400000 100000")
    tree.put("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/cpu.stat",
             "usage_usec 900\nnr_periods 1200\nnr_throttled 300\nthrottled_usec 77")
    tree.put("sys/fs/selinux/enforce", 1)
    tree.put("sys/fs/selinux/booleans/deny_ptrace", "1 1")
    tree.put("proc/self/attr/current", b"unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023\0")
    tree.put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14")
    card = add_function(tree, "pci0000:16/0000:16:02.0/0000:17:00.0", 0x15B3, 0x101B, 0x020700, "mlx5_core",
                        port_type=ENDPOINT)
    gpu = "pci0000:16/0000:16:03.0/0000:18:00.0"
    add_function(tree, gpu, 0x10DE, 0x20B0, 0x030200, "nvidia", port_type=ENDPOINT)
    none = "0x0000000000000000 0x0000000000000000 0x0000000000000000"
    tree.put(f"sys/devices/{gpu}/resource", "\n".join((
        "0x00000000fb000000 0x00000000fbffffff 0x0000000000040200",
        "0x0000000000000000 0x0000000fffffffff 0x000000002014220c", none,
        "0x00000000fa000000 0x00000000fbffffff 0x000000000014220c", none, *(none,) * 8)))
    add_interface(tree, "ib0", speed=200000, mtu=2044, kind=32, pci=card)
    tree.put("sys/class/net/ib0/mode", "datagram")
    add_interface(tree, "lo", state="unknown", mtu=65536, kind=772)
    add_addresses(tree, [("ib0", "10.9.1.17", 16)], "ib0")
    add_port(tree, "mlx5_0", 1, card, "InfiniBand", "4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)")
    tree.put("dev/infiniband/uverbs0", "")
    for module, taint in (("mlx5_core", "OE"), ("mlx5_ib", "OE"), ("ib_core", ""), ("ib_uverbs", ""), ("rdma_cm", "")):
        tree.put(f"sys/module/{module}/taint", taint)
    tree.put("sys/module/mlx5_core/version", "23.10-1.1.9")
    tree.put("usr/bin/ofed_info", "#!/bin/sh\necho MLNX_OFED_LINUX-23.10-1.1.9.0 (OFED-23.10-1.1.9):")


def make_wsl(root):
    tree = Tree(root)
    add_base(tree, "laptop", sockets=1, cores=8, memory=16 * GIB, flags=WIDE + " hypervisor",
             kernel="5.15.153.1-microsoft-standard-WSL2")
    tree.put("proc/self/mounts", "\n".join((
        "/dev/sdc / ext4 rw,relatime 0 0",
        "none /usr/lib/wsl/drivers 9p ro,nosuid,nodev,noatime,aname=drivers;fmask=222;dmask=222,trans=fd 0 0",
        "C:\\134 /mnt/c 9p rw,noatime,aname=drvfs;path=C:\\;uid=1000;gid=1000,mmap,access=client,trans=fd 0 0",
        "tmpfs /dev/shm tmpfs rw,nosuid,nodev,noatime 0 0")))
    tree.put("proc/self/environ", "VIRTUAL_ENV=/mnt/c/Users/ada/env\0")
    tree.put("proc/1/cgroup", "0::/init.scope")
    add_interface(tree, "eth0", speed=10000, driver="hv_netvsc")
    add_addresses(tree, [("eth0", "172.28.16.2", 20)], "eth0")


def make_config(root):
    tree = Tree(root)
    whole = config_space(0x15AD, 0x07A0, 0x060400, port_type=ROOT_PORT, bridge=True,
                         extended=[(AER, 0, 0), (ACS, 0x5F, 0x1D), (ATS, 0x20, 0x8000)])
    tree.put("bridge", whole)
    tree.put("plain", whole[:256])
    tree.put("user", whole[:64])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    make_bare(root / "bare")
    make_container(root / "container")
    make_pod(root / "pod")
    make_good_pod(root / "good-pod")
    make_vm(root / "vm")
    make_node(root / "node")
    make_wsl(root / "wsl")
    make_config(root / "config")


if __name__ == "__main__":
    main()
