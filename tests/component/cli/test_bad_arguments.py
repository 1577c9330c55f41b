"""Wrong arguments of every command: the whole message (where, what, what would be right), and exit code 2.

Those of ``inspect``, ``match`` and ``kubectl gpu`` stand in tests of their own, environment and files in ``test_bad_inputs``.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from driver.nvml.mock.catalogue import read_machine_names
from tests.component.cli.program import Program

_ALL = "kubelet-plugin, controller, inspect, record, match, simulate, demo"
_NAMED = f"named ones: {', '.join(read_machine_names())}; or a path to a .yaml file"
_NO_FILE = "cannot be read: No such file or directory"
_MACHINE_FILE = "give the path of a machine file (docs/mock-machines.md), or a name without a slash, such as dgx-h100"
_NVML = "say real, mock:dgx-h100, mock:dgx-h100@node-b or mock:/path/of/machine.yaml"
_SEED = "a seed after @ is 1 to 253 letters, digits, dots, dashes: a node's name"
_KUBECONFIG = "`kubectl config view --raw` prints a whole one"
_FILES = {
    "not-yaml": "{",
    "empty": "{}",
    "list": "[]",
    "no-server": "{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: [{name: c, cluster: {}}]}",
    "no-cluster": "{current-context: a, contexts: [{name: a, context: {cluster: c}}]}",
    "other-cluster": "{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: [{name: d}, {name: b}]}",
    "pods.csv": "name,num_gpu\na,1\n",
    "words.csv": "nonsense\n",
}
"""Files in the folder that the commands are run in; DIR in the table."""

WRONG = {
    # settings of the kubelet plugin
    "kubelet-plugin": "--node-name: is needed (this node, as `kubectl get nodes` names it; in a pod from fieldRef "
    "spec.nodeName); give --node-name, $GPU_DRA_NODE_NAME or $NODE_NAME, or nodeName in the config file",
    "kubelet-plugin --node-name a_b": "--node-name: 'a_b' is no node name; give the name that `kubectl get nodes` shows "
    "(lower case, digits, - and .)",
    "kubelet-plugin --node-name a --pod-uid ../x": "--pod-uid: '../x' is no pod uid; "
    "take it from the downward API (fieldRef metadata.uid)",
    "kubelet-plugin --node-name a --controller-lease foo": "--controller-lease: 'foo' is not NAMESPACE/NAME; "
    "say it as in gpu-dra/gpu-dra-controller",
    "kubelet-plugin --node-name a --drain-time 0": "--drain-time: '0' is too short; say at least 1s, such as 900s, 15m or 1h",
    "kubelet-plugin --node-name a --drain-time soon": "--drain-time: 'soon' is no time; say 900, 900s, 15m or 1h",
    "kubelet-plugin --node-name a --health-address :99999": "--health-address: ':99999' is no address; "
    "say HOST:PORT, :PORT or unix:/path/of/socket",
    "kubelet-plugin --node-name a --metrics-address unix:/m": "--metrics-address: unix:/m is a unix socket, and metrics are "
    "served over HTTP: HOST:PORT or :PORT is needed",
    "kubelet-plugin --node-name a --metrics-address :9 --health-address :9": "--metrics-address: [::]:9 is where health is "
    "served (--health-address); two servers need two ports",
    "kubelet-plugin --node-name a --metrics-address :9 --health-address :9 --print-settings": "--metrics-address: [::]:9 is "
    "where health is served (--health-address); two servers need two ports",
    "kubelet-plugin --node-name a --ignored-xids 48,,63": "--ignored-xids: '' in '48,,63' is no XID; "
    "say numbers with commas, as 48,63",
    "kubelet-plugin --node-name a --ignored-xids all": "--ignored-xids: 'all' in 'all' is no XID; "
    "say numbers with commas, as 48,63",
    "kubelet-plugin --node-name a --evict-for gpu_lost": "--evict-for: 'gpu_lost' is nothing that pods are evicted for; "
    "say one or more of gpu-lost, xid, ecc, recovery, remapped-rows",
    "kubelet-plugin --node-name a --health-events true": "--health-events: 'true' is not a choice; say on or off",
    "kubelet-plugin --node-name a --nvml dgx-h100": f"--nvml: 'dgx-h100' is no NVML; {_NVML}",
    "kubelet-plugin --node-name a --mig on": "--mig: 'on' is not a choice; say auto or static or dynamic or off",
    "kubelet-plugin --node-name a --consumable-shares memory:": "--consumable-shares: 'memory:' is no way to divide GPUs; "
    "say disabled, memory, or memory:GPU,GPU (device names, PCI addresses or UUIDs)",
    "kubelet-plugin --node-name a --cdi-root ''": "--cdi-root: '' is not absolute; give a path that starts with /",
    "kubelet-plugin --node-name a --nvml mock:dgx-h10": "mock machine 'dgx-h10': no such machine; "
    f"did you mean dgx-h100? {_NAMED}",
    "kubelet-plugin --node-name a --nvml mock:./none.yaml": f"mock machine ./none.yaml: {_NO_FILE}; {_MACHINE_FILE}",
    "kubelet-plugin --node-name a --log-form text": "USAGE '--log-form' is no argument of this command; "
    "did you mean --log-format?",
    "kubelet-plugin --node-name": "USAGE argument --node-name: expected one argument;",
    "kubelet-plugin --node-name a now": "USAGE 'now' is no argument of this command;",
    # how the API server is reached
    "controller --kubeconfig none": "reading a kubeconfig from DIR/none: No such file or directory; "
    "name one with --kubeconfig or $KUBECONFIG",
    "controller --kubeconfig not-yaml": f"kubeconfig DIR/not-yaml: not YAML at line 2; {_KUBECONFIG}",
    "controller --kubeconfig empty": "kubeconfig DIR/empty: current-context is not set; `kubectl config use-context` sets it",
    "controller --kubeconfig list": f"kubeconfig DIR/list: must be a mapping with clusters, users and contexts; {_KUBECONFIG}",
    "controller --kubeconfig no-server": "kubeconfig DIR/no-server: clusters[c].cluster.server must be an http:// or https:// "
    "URL, is ''",
    "controller --kubeconfig no-cluster": "kubeconfig DIR/no-cluster: contexts[a].context.cluster is 'c', "
    f"and clusters has nothing; {_KUBECONFIG}",
    "controller --kubeconfig other-cluster": "kubeconfig DIR/other-cluster: contexts[a].context.cluster is 'c', "
    "and clusters has only: b, d; name one of them",
    # settings of the controller
    "controller --lease-s 0": "--lease-s: '0' s is too short; say more than 0 seconds, such as 60 or 1.5",
    "controller --lease-s 1h": "--lease-s: '1h' is no time; say seconds, such as 60 or 1.5",
    "controller --lease-s 5 --renew-s 10": "leader election: lease (5.0 s) must be longer than renew (10.0 s); lease (5.0 s) "
    "must be longer than request time-out (5.0 s) and retry (2.0 s) together, or nothing may ever be written",
    "controller --health-address unix:/h": "--health-address: unix:/h is a unix socket, and the controller serves HTTP: "
    "HOST:PORT or :PORT is needed",
    "controller --unbound-s -1": "--unbound-s: '-1' is no time; say seconds, such as 60 or 1.5",
    "controller --namespace A": "--namespace: 'A' is no namespace; give the name that `kubectl get namespaces` shows",
    "controller --lease-name A": "--lease-name: 'A' is no object's name; say one such as gpu-dra-controller "
    "(lower case, digits, - and .)",
    "controller --schedulers ,": "--schedulers: ',' is no list of names; say one or more, such as default-scheduler,batch",
    "controller --hold yes": "--hold: 'yes' is not a choice; say on or off",
    "controller --log-level loud": "--log-level: 'loud' is not a choice; say debug or info or warning or error",
    "controller --log-format xml": "--log-format: 'xml' is not a choice; say json or text",
    "controller --node-name a": "USAGE '--node-name' is no argument of this command, "
    "but of kubelet-plugin and inspect and match;",
    # record
    "record --nvml mock:": f"--nvml: 'mock:' is no NVML; {_NVML}",
    "record --nvml none": f"--nvml: 'none' is no NVML; {_NVML}",
    "record --nvml mock:t4@": f"mock machine 't4@': {_SEED}",
    "record --nvml mock:t44": f"mock machine 't44': no such machine; did you mean t4? {_NAMED}",
    "record --name 'a b'": "--name: 'a b' is no machine's name; say lower-case letters, digits, dots and dashes",
    "record --nvml mock:t4 --name ''": "--name: '' is no machine's name; say lower-case letters, digits, dots and dashes",
    "record --config none": "none: cannot be read (No such file or directory); "
    "give a YAML file with --config or GPU_DRA_CONFIG",
    "record --nvml mock:t4 --sys-root '/a\nb'": "--sys-root: '/a\\nb' holds a NUL or a line break; give a plain path",
    "record -o yaml": "USAGE '-o' is no argument of this command, but of inspect and match and simulate and demo;",
    "record --nvml mock:t4 --anonymise": "USAGE '--anonymise' is no argument of this command; did you mean --anonymize?",
    "record --nvml mock:t4 x": "USAGE 'x' is no argument of this command;",
    # demo
    "demo --machine nope": f"mock machine 'nope': no such machine; {_NAMED}",
    "demo --machine dgx-h10": f"mock machine 'dgx-h10': no such machine; did you mean dgx-h100? {_NAMED}",
    "demo --machine DGX-A100": f"mock machine 'DGX-A100': no such machine; did you mean dgx-a100? {_NAMED}",
    "demo --machine ''": f"mock machine '': no such machine; {_NAMED}",
    "demo --machine ./none.yaml": f"mock machine ./none.yaml: {_NO_FILE}; {_MACHINE_FILE}",
    "demo --machine /": f"mock machine /: cannot be read: Is a directory; {_MACHINE_FILE}",
    "demo --machine 't4@ '": f"mock machine 't4@ ': {_SEED}",
    "demo --machine": "USAGE argument --machine: expected one argument;",
    "demo --machin t4": "USAGE '--machin' is no argument of this command; did you mean --machine?",
    "demo t4": "USAGE 't4' is no argument of this command;",
    "demo -o yaml": "USAGE argument -o/--output: invalid choice: 'yaml' (choose from 'text', 'json');",
    # simulate
    "simulate": "USAGE the following arguments are required: --arrivals, --nodes;",
    "simulate --arrivals none --nodes 1": f"--arrivals none: {_NO_FILE}; give a list as in docs/simulate.md",
    "simulate --arrivals words.csv --nodes 1": "--arrivals words.csv: no column name; a CSV list has at least name, num_gpu; "
    "this one has nonsense",
    "simulate --arrivals pods.csv --nodes 0": "--nodes 0: 1 to 20000 nodes can be simulated",
    "simulate --arrivals pods.csv --nodes many": f"--nodes many: {_NO_FILE}; give a number, or a list as in docs/simulate.md",
    "simulate --arrivals pods.csv --nodes 1 --machine nope": f"mock machine 'nope': no such machine; {_NAMED}",
    "simulate --arrivals pods.csv --nodes 1 --policy best": "USAGE argument --policy: invalid choice: 'best' "
    "(choose from 'pack', 'spread', 'first-fit', 'random');",
    "simulate --arrivals pods.csv --nodes 1 --seed x": "USAGE argument --seed: 'x' is no whole number;",
    "simulate --arrivals pods.csv --nodes 1 --spare-sets 1.5": "USAGE argument --spare-sets: '1.5' is no number "
    "of sets; say 1 to 20000;",
    "simulate --arrivals pods.csv --nodes 1 --hold-after soon": "USAGE argument --hold-after: 'soon' is no time; "
    "say seconds, such as 0, 1.5 or 3600;",
    "simulate --arrivals pods.csv --nodes 1 --hold-patience -1": "USAGE argument --hold-patience: '-1' is no time; "
    "say seconds, such as 0, 1.5 or 3600;",
}
"""For each command line what is said after the program's name; USAGE: by the command line itself, which names its help."""


@pytest.mark.parametrize(("line", "says"), WRONG.items(), ids=WRONG.keys())
def test_a_wrong_argument(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, says: str) -> None:
    for name, text in _FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    argv = shlex.split(line)
    ended = program(*argv)
    usage = f" `gpu-dra {argv[0]} --help` says what is right"
    text = f"gpu-dra {argv[0]}: error: {says[6:]}{usage}" if says.startswith("USAGE ") else f"gpu-dra: error: {says}"
    assert (ended.code, ended.out, ended.err) == (2, "", text.replace("DIR", str(tmp_path)) + "\n")


def test_each_command_has_ten() -> None:
    commands = [line.split()[0] for line in WRONG]
    assert {name for name in commands if commands.count(name) < 10} == set()
    assert set(commands) == {"kubelet-plugin", "controller", "record", "demo", "simulate"}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ((), f"the following arguments are required: COMMAND, one of {_ALL};"),
        (("--verbose",), f"the following arguments are required: COMMAND, one of {_ALL};"),
        (("inspekt",), "did you mean inspect?"),
        (("kubelet_plugin",), "did you mean kubelet-plugin?"),
        (("nosuch",), "'demo');"),
    ],
    ids=["nothing", "a flag alone", "misspelt", "an underscore", "no command"],
)
def test_no_such_command(program: Program, argv: tuple[str, ...], says: str) -> None:
    ended = program(*argv)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("gpu-dra: error: ")
    assert ended.err.endswith(f"{says} `gpu-dra --help` says what is right\n")
