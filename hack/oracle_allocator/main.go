// Oracle answers how Kubernetes' own allocator, the one that kube-scheduler runs, serves claims on one node. It reads JSON lines
// {id, slices, classes, claims, allocated, shared} and writes each line again with "kubernetes" filled in. A developer's tool:
// the answers are committed (tests/golden/allocator), and no test needs Go.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

const node = "node-a"

type deviceID struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

type share struct {
	deviceID
	ShareID  types.UID                                       `json:"shareID"`
	Consumed map[resourceapi.QualifiedName]resource.Quantity `json:"consumed"`
}

type question struct {
	ID        string                                 `json:"id"`
	Slices    []*resourceapi.ResourceSlice           `json:"slices"`
	Classes   map[string]resourceapi.DeviceClassSpec `json:"classes"`
	Claims    []*resourceapi.ResourceClaim           `json:"claims"`
	Allocated []deviceID                             `json:"allocated"`
	Shared    []share                                `json:"shared"`
}

type answer struct {
	Error   string                         `json:"error,omitempty"`
	Results []resourceapi.AllocationResult `json:"results,omitempty"`
}

type classes map[string]resourceapi.DeviceClassSpec

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return nil, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	spec, found := c[name]
	if !found {
		return nil, fmt.Errorf("no class %s", name)
	}
	return &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, nil
}

func state(q question) structured.AllocatedState {
	s := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, each := range q.Allocated {
		s.AllocatedDevices.Insert(structured.MakeDeviceID(each.Driver, each.Pool, each.Device))
	}
	for _, each := range q.Shared {
		id := structured.MakeDeviceID(each.Driver, each.Pool, each.Device)
		s.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, &each.ShareID))
		s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, each.Consumed))
	}
	return s
}

func ask(q question, cache *cel.Cache) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// The gates of 1.37 that are on by default.
	features := structured.Features{
		AdminAccess: true, ConsumableCapacity: true, DeviceBindingAndStatus: true, DeviceTaints: true,
		PartitionableDevices: true, PrioritizedList: true,
	}
	allocator, err := structured.NewAllocator(ctx, features, state(q), classes(q.Classes), q.Slices, cache)
	if err != nil {
		return answer{Error: err.Error()}
	}
	results, err := allocator.Allocate(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, q.Claims)
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Results: results}
}

func main() {
	cache := cel.NewCache(100, cel.Features{EnableConsumableCapacity: true})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var q question
		var whole map[string]json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		if err := json.Unmarshal(lines.Bytes(), &whole); err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		text, err := json.Marshal(ask(q, cache))
		if err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		whole["kubernetes"] = text
		line, err := json.Marshal(whole)
		if err != nil {
			fmt.Fprintln(os.Stderr, "oracle:", err)
			os.Exit(1)
		}
		fmt.Fprintln(out, string(line))
	}
}
