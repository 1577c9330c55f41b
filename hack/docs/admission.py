"""``deploy/admission/refuse-wrong-configs.yaml``, from the table that prepare reads configs with."""

from __future__ import annotations

import textwrap

from driver.api.admission import build_faults

_DRIVER = "gpu.nvidia.com"
_CONFIGS_MAX = 32
_WIDTH = 118

_POLICY = """\
# Made by `python -m hack.docs` from driver/api/config_schema.py and sharing.py. Change these, not this file.
#
# A claim, template or DeviceClass whose config for this driver is wrong is refused when it is created, with every fault and in
# the words in which prepare would refuse it on the node (docs/sharing.md). A driver of another name: change it here.
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: gpu-dra-refuse-wrong-configs
spec:
  failurePolicy: Fail
  matchConstraints:
    # Requests of every other served version are converted to this one first.
    matchPolicy: Equivalent
    resourceRules:
    - apiGroups: [resource.k8s.io]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [resourceclaims, resourceclaimtemplates, deviceclasses]
  matchConditions:
  # Specs of claims never change; what was let in before the policy must not keep a claim from losing its finalizer.
  - name: new-or-class
    expression: request.operation == 'CREATE' || (object.kind == 'DeviceClass' && object.spec != oldObject.spec)
  variables:
  - name: path
    expression: >-
      object.kind == 'DeviceClass' ? 'spec.config' : object.kind == 'ResourceClaimTemplate' ? 'spec.spec.devices.config' :
      'spec.devices.config'
  - name: configs
    expression: >-
      object.kind == 'DeviceClass' ? object.spec.?config.orValue([]) :
      (object.kind == 'ResourceClaimTemplate' ? object.spec.spec : object.spec).?devices.?config.orValue([])
  - name: own
    expression: >-
      @PLACES@.filter(i, i < size(variables.configs) &&
      variables.configs[i].?opaque.?driver.orValue('') == '@DRIVER@')
  - name: faults
    expression: >-
@FAULTS@
  validations:
  - expression: variables.faults.size() == 0
    reason: Invalid
    message: a config for the driver @DRIVER@ is wrong; see docs/sharing.md
    messageExpression: variables.faults.join('; ')
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: gpu-dra-refuse-wrong-configs
spec:
  policyName: gpu-dra-refuse-wrong-configs
  validationActions: [Deny]
"""


def render_config_policy() -> str:
    """The file."""
    parameters = "variables.configs[i].opaque.?parameters.orValue(dyn(null))"
    of_one = f"[{parameters}].map(c, {build_faults('c')})[0]"
    prefixed = f"{of_one}.map(f, variables.path + '[' + string(i) + '].opaque.parameters: ' + f).join('\\n')"
    faults = f"variables.own.map(i, {prefixed}).filter(t, t != '').join('\\n').split('\\n').filter(t, t != '')"
    lines = textwrap.wrap(faults, _WIDTH, break_long_words=False, break_on_hyphens=False)
    return (
        _POLICY.replace("@PLACES@", f"[{', '.join(str(place) for place in range(_CONFIGS_MAX))}]")
        .replace("@DRIVER@", _DRIVER)
        .replace("@FAULTS@", textwrap.indent("\n".join(lines), " " * 6))
    )
