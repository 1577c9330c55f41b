// Oracle answers what Kubernetes' own code says to DRA device selectors: the same module that kube-apiserver and
// kube-scheduler are built from. It reads JSON lines {id, expr, driver, device, list, cons} and writes each line again with
// "expected" filled in. A developer's tool: the answers are committed (tests/golden/cel), and no test needs Go.
//
// With -bench N it prints evaluations a second instead, N repetitions a selector.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	ID     string             `json:"id"`
	Expr   string             `json:"expr"`
	Driver string             `json:"driver"`
	Device resourceapi.Device `json:"device"`
	List   bool               `json:"list,omitempty"`
	Cons   bool               `json:"cons,omitempty"`
}

type answer struct {
	CompileErr string `json:"compile_err,omitempty"`
	EvalErr    string `json:"eval_err,omitempty"`
	Match      bool   `json:"match"`
	Type       string `json:"type,omitempty"`
	MaxCost    uint64 `json:"max_cost"`
	Cost       uint64 `json:"cost"`
}

// New expressions: what a request or class that is written now is checked against. Stored ones have every feature on.
var envType = environment.NewExpressions

func compile(q question) dracel.CompilationResult {
	features := dracel.Features{EnableConsumableCapacity: q.Cons, EnableListTypeAttributes: q.List}
	return dracel.GetCompiler(features).CompileCELExpression(q.Expr, dracel.Options{EnvType: &envType})
}

func input(q question) dracel.Device {
	return dracel.Device{
		Driver:                   q.Driver,
		AllowMultipleAllocations: q.Device.AllowMultipleAllocations,
		Attributes:               q.Device.Attributes,
		Capacity:                 q.Device.Capacity,
	}
}

func ask(q question) (a answer) {
	// Kubernetes' code panics on a few expressions, most of them while it compiles; a client sees that as a refusal.
	isCompiled := false
	defer func() {
		if r := recover(); r == nil {
			return
		} else if isCompiled {
			a.EvalErr = fmt.Sprint("panic: ", r)
		} else {
			a.CompileErr = fmt.Sprint("panic: ", r)
		}
	}()
	result := compile(q)
	isCompiled = true
	a.MaxCost = result.MaxCost
	if result.Error != nil {
		a.CompileErr = result.Error.Detail
		return a
	}
	a.Type = result.OutputType.String()
	match, details, err := result.DeviceMatches(context.Background(), input(q))
	if details != nil && details.ActualCost() != nil {
		a.Cost = *details.ActualCost()
	}
	if err != nil {
		a.EvalErr = err.Error()
	}
	a.Match = match
	return a
}

func bench(q question, repetitions int) string {
	result := compile(q)
	if result.Error != nil {
		return ""
	}
	device := input(q)
	start := time.Now()
	for range repetitions {
		_, _, _ = result.DeviceMatches(context.Background(), device)
	}
	per := time.Since(start).Seconds() / float64(repetitions)
	return fmt.Sprintf("{\"id\": %q, \"evaluations_per_s\": %.0f}", q.ID, 1/per)
}

func main() {
	repetitions := flag.Int("bench", 0, "print evaluations a second, measured over this many repetitions a selector")
	flag.Parse()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			fmt.Fprintln(os.Stderr, "oracle: a line is no case:", err)
			os.Exit(2)
		}
		if *repetitions > 0 {
			if text := bench(q, *repetitions); text != "" {
				fmt.Fprintln(out, text)
			}
			continue
		}
		// The line's own fields are kept as they were read.
		var line map[string]json.RawMessage
		_ = json.Unmarshal(lines.Bytes(), &line)
		line["expected"], _ = json.Marshal(ask(q))
		text, _ := json.Marshal(line)
		fmt.Fprintln(out, string(text))
	}
}
