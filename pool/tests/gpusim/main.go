// gpusim: a vCenter with one ESXi host, four Tesla T4 and two virtual machines, "python" and "r", for the tests of
// `xoe pool vsphere`. It stands on govmomi's simulator, which lacks two rules that -strict adds:
//   - a passthrough device is added and removed only while the VM is off;
//   - a VM does not start while another that runs has one of its devices.
//
// Tests inject faults with lines on stdin; each is answered by "ok": "expire" (all sessions end), "slow SECONDS" (each
// task takes that time), "busy N" (the next N changes of a device are refused), "reserve VM false" (its memory is not
// reserved any more), "on VM", "off VM" (as its owner would), "steal VM PCI" (somebody gives it a device).
package main

import (
	"bufio"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

var (
	vms     = []string{"python", "r"}
	slow    atomic.Int64
	busy    atomic.Int64
	expired atomic.Pointer[time.Time] // sessions of before are over
)

func pci(i int) string { return fmt.Sprintf("0000:%02x:00.0", 0x3b+i) }

func gpu(i int) types.HostPciDevice {
	return types.HostPciDevice{
		Id: pci(i), Bus: uint8(0x3b + i), ClassId: 0x302, VendorId: 0x10de, DeviceId: 0x1eb8,
		VendorName: "NVIDIA Corporation", DeviceName: "TU104GL [Tesla T4]",
	}
}

// The last `shared` of the GPUs are for vGPUs.
func addGpus(host *simulator.HostSystem, shared int) *types.ConfigTarget {
	target := &types.ConfigTarget{}
	profiles := []string{"grid_t4-4q", "grid_t4-8q", "grid_t4-16q"}
	host.Config.SharedPassthruGpuTypes = profiles
	for i := 0; i < 4; i++ {
		kind := "direct"
		if i >= 4-shared {
			kind = "sharedDirect"
		}
		device := gpu(i)
		host.Hardware.PciDevice = append(host.Hardware.PciDevice, device)
		host.Config.PciPassthruInfo = append(host.Config.PciPassthruInfo, &types.HostPciPassthruInfo{
			Id: device.Id, DependentDevice: device.Id, PassthruCapable: true,
			PassthruEnabled: kind == "direct", PassthruActive: kind == "direct"})
		host.Config.GraphicsInfo = append(host.Config.GraphicsInfo, types.HostGraphicsInfo{
			DeviceName: device.DeviceName, VendorName: device.VendorName, PciId: device.Id,
			GraphicsType: kind, MemorySizeInKB: 16 << 20})
		if kind == "direct" {
			target.PciPassthrough = append(target.PciPassthrough, &types.VirtualMachinePciPassthroughInfo{
				VirtualMachineTargetInfo: types.VirtualMachineTargetInfo{Name: device.DeviceName},
				PciDevice:                device, SystemId: "5e9f4929-ba00-38b7-f43c-54b2030b68d0"})
		}
	}
	for _, profile := range profiles {
		target.SharedGpuPassthroughTypes = append(target.SharedGpuPassthroughTypes,
			types.VirtualMachinePciSharedGpuPassthroughInfo{
				VirtualMachineTargetInfo: types.VirtualMachineTargetInfo{Name: profile}, Vgpu: profile})
	}
	return target
}

func devicesOf(vm *simulator.VirtualMachine) map[string]bool {
	ids := map[string]bool{}
	for _, device := range vm.Config.Hardware.Device {
		if p, ok := device.(*types.VirtualPCIPassthrough); ok {
			if b, ok := p.Backing.(*types.VirtualPCIPassthroughDeviceBackingInfo); ok {
				ids[b.Id] = true
			}
		}
	}
	return ids
}

func isOn(vm *simulator.VirtualMachine) bool {
	return vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn
}

func checkChange(vm *simulator.VirtualMachine, request *types.ReconfigVM_Task, strict bool) types.BaseMethodFault {
	for _, change := range request.Spec.DeviceChange {
		if _, ok := change.GetVirtualDeviceConfigSpec().Device.(*types.VirtualPCIPassthrough); !ok {
			continue
		}
		if busy.Load() > 0 {
			busy.Add(-1)
			return &types.ResourceInUse{Type: "PciPassthrough", Name: "a device of " + vm.Name}
		}
		if strict && isOn(vm) {
			return &types.InvalidPowerState{
				RequestedState: types.VirtualMachinePowerStatePoweredOff, ExistingState: vm.Runtime.PowerState}
		}
	}
	return nil
}

func checkStart(registry *simulator.Registry, vm *simulator.VirtualMachine) types.BaseMethodFault {
	mine := devicesOf(vm)
	for _, each := range registry.All("VirtualMachine") {
		other := each.(*simulator.VirtualMachine)
		if other.Self == vm.Self || !isOn(other) {
			continue
		}
		for id := range devicesOf(other) {
			if mine[id] {
				return &types.ResourceInUse{Type: "PciPassthrough", Name: id + " in use by " + other.Name}
			}
		}
	}
	return nil
}

func find(registry *simulator.Registry, name string) *simulator.VirtualMachine {
	for _, each := range registry.All("VirtualMachine") {
		if vm := each.(*simulator.VirtualMachine); vm.Name == name {
			return vm
		}
	}
	log.Fatalf("no VM %s", name)
	return nil
}

func obey(registry *simulator.Registry, words []string) {
	number := func(i int) int64 {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			log.Fatal(err)
		}
		return n
	}
	switch words[0] {
	case "expire":
		now := time.Now()
		expired.Store(&now)
	case "slow":
		slow.Store(number(1))
	case "busy":
		busy.Store(number(1))
	case "reserve":
		reserved := words[2] == "true"
		find(registry, words[1]).Config.MemoryReservationLockedToMax = &reserved
	case "on":
		find(registry, words[1]).Runtime.PowerState = types.VirtualMachinePowerStatePoweredOn
	case "off":
		find(registry, words[1]).Runtime.PowerState = types.VirtualMachinePowerStatePoweredOff
	case "steal":
		vm := find(registry, words[1])
		vm.Config.Hardware.Device = append(vm.Config.Hardware.Device, &types.VirtualPCIPassthrough{
			VirtualDevice: types.VirtualDevice{Key: 13900, Backing: &types.VirtualPCIPassthroughDeviceBackingInfo{Id: words[2]}}})
	default:
		log.Fatalf("unknown command %v", words)
	}
}

func main() {
	listen := flag.String("l", "127.0.0.1:0", "listen address")
	strict := flag.Bool("strict", false, "ESXi's rules about power and conflicts")
	shared := flag.Int("shared", 0, "GPUs for vGPUs")
	flag.Parse()

	model := simulator.VPX()
	model.Machine, model.Host, model.ClusterHost, model.Autostart = len(vms), 0, 1, false
	if err := model.Create(); err != nil {
		log.Fatal(err)
	}
	defer model.Remove()
	registry := model.Map()

	var target *types.ConfigTarget
	for _, each := range registry.All("HostSystem") {
		target = addGpus(each.(*simulator.HostSystem), *shared)
	}
	for _, each := range registry.All("ClusterComputeResource") {
		cluster := each.(*simulator.ClusterComputeResource)
		registry.Get(*cluster.EnvironmentBrowser).(*simulator.EnvironmentBrowser).QueryConfigTargetResponse.Returnval = target
	}
	for i, each := range registry.All("VirtualMachine") {
		vm := each.(*simulator.VirtualMachine)
		reserved := true
		vm.Name, vm.Config.Name = vms[i], vms[i]
		vm.Config.MemoryReservationLockedToMax = &reserved
	}

	registry.Handler = func(ctx *simulator.Context, method *simulator.Method) (mo.Reference, types.BaseMethodFault) {
		end := expired.Load()
		if end != nil && ctx.Session != nil && ctx.Session.LoginTime.Before(*end) && method.Name != "Login" {
			return nil, &types.NotAuthenticated{}
		}
		vm, ok := registry.Get(method.This).(*simulator.VirtualMachine)
		if !ok {
			return nil, nil
		}
		if strings.HasSuffix(method.Name, "_Task") {
			time.Sleep(time.Duration(slow.Load()) * time.Second)
		}
		switch request := method.Body.(type) {
		case *types.ReconfigVM_Task:
			return nil, checkChange(vm, request, *strict)
		case *types.PowerOnVM_Task:
			if *strict {
				return nil, checkStart(registry, vm)
			}
		}
		return nil, nil
	}

	model.Service.Listen = &url.URL{Scheme: "https", Host: *listen, User: url.UserPassword("pool", "secret")}
	model.Service.TLS = new(tls.Config)
	server := model.Service.NewServer()
	fmt.Printf("https://%s/sdk\n", server.URL.Host)
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		obey(registry, strings.Fields(commands.Text()))
		fmt.Println("ok")
	}
	server.Close()
}
