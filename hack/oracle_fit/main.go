// Oracle answers which of kube-scheduler's own filters keep a pod off a node. It reads JSON lines {id, pod, node, others} and writes
// each line again with "kubernetes" filled in: a sorted list of filters, each with what is short. A developer's tool: the answers
// are committed (tests/golden/fit), and no test needs Go.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sort"

	v1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	pluginhelper "k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodename"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodeports"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/noderesources"
)

type question struct {
	ID         string    `json:"id"`
	Pod        *v1.Pod   `json:"pod"`
	Node       *v1.Node  `json:"node"`
	Others     []*v1.Pod `json:"others"`
	Kubernetes []string  `json:"kubernetes"`
}

func judge(q question) []string {
	info := framework.NewNodeInfo(q.Others...)
	info.SetNode(q.Node)
	found := []string{}
	note := func(is bool, what string) {
		if is {
			found = append(found, what)
		}
	}
	// Lt and Gt of tolerations are an alpha gate; a server without it refuses them, so who has one has the gate.
	tolerated := func(taints []v1.Taint) bool {
		_, is := helper.FindMatchingUntoleratedTaint(
			klog.Background(), taints, q.Pod.Spec.Tolerations, pluginhelper.DoNotScheduleTaintsFilterFunc(), true)
		return !is
	}
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	selected, _ := nodeaffinity.GetRequiredNodeAffinity(q.Pod).Match(q.Node)
	note(!nodename.Fits(q.Pod, info), "name")
	note(!selected, "affinity")
	note(!tolerated(q.Node.Spec.Taints), "taint")
	note(q.Node.Spec.Unschedulable && !tolerated([]v1.Taint{cordon}), "unschedulable")
	note(!nodeports.Fits(q.Pod, info), "port")
	options := noderesources.ResourceRequestsOptions{EnablePodLevelResources: true}
	for _, short := range noderesources.Fits(q.Pod, info, nil, options) {
		found = append(found, fmt.Sprintf("%s %d %d %d", short.ResourceName, short.Requested, short.Used, short.Capacity))
	}
	sort.Strings(found)
	return found
}

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 1<<24)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var q question
		if err := json.Unmarshal(in.Bytes(), &q); err != nil {
			panic(err)
		}
		var line map[string]json.RawMessage
		if err := json.Unmarshal(in.Bytes(), &line); err != nil {
			panic(err)
		}
		answer, err := json.Marshal(judge(q))
		if err != nil {
			panic(err)
		}
		line["kubernetes"] = answer
		if err := out.Encode(line); err != nil {
			panic(err)
		}
	}
}
