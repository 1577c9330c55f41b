"""Which functions there are beyond the standard ones: CEL's extensions and Kubernetes' own libraries."""

from __future__ import annotations

from functools import cache

from driver.cel.signatures import OPERATORS, STANDARD, Overload, parse_signatures
from driver.cel.well_known_formats import FORMATS

_COMPARABLE = (
    ("int", "int"),
    ("uint", "uint"),
    ("double", "double"),
    ("bool", "bool"),
    ("duration", "google.protobuf.Duration"),
    ("timestamp", "google.protobuf.Timestamp"),
    ("string", "string"),
    ("bytes", "bytes"),
)


def _each(template: str, names: tuple[tuple[str, str], ...] = _COMPARABLE) -> str:
    return "\n".join(template.format(name=name, full=full) for name, full in names)


_STRINGS = """
charAt .string_char_at_int(string int) string
find .string_find_string(string string) string
findAll .string_find_all_string(string string) list(string)
findAll .string_find_all_string_int(string string int) list(string)
format .string_format(string list(dyn)) string
indexOf .string_index_of_string(string string) int
indexOf .string_index_of_string_int(string string int) int
join .list_join(list(string)) string
join .list_join_string(list(string) string) string
lastIndexOf .string_last_index_of_string(string string) int
lastIndexOf .string_last_index_of_string_int(string string int) int
lowerAscii .string_lower_ascii(string) string
replace .string_replace_string_string(string string string) string
replace .string_replace_string_string_int(string string string int) string
split .string_split_string(string string) list(string)
split .string_split_string_int(string string int) list(string)
strings.quote strings_quote(string) string
substring .string_substring_int(string int) string
substring .string_substring_int_int(string int int) string
trim .string_trim(string) string
upperAscii .string_upper_ascii(string) string
"""

_OPTIONALS = """
first .list_first(list(V)) optional(V)
hasValue .optional_hasValue(optional(V)) bool
last .list_last(list(V)) optional(V)
optional.none optional_none() optional(V)
optional.of optional_of(V) optional(V)
optional.ofNonZeroValue optional_ofNonZeroValue(V) optional(V)
optional.unwrap optional_unwrap(list(optional(V))) list(V)
or .optional_or_optional(optional(V) optional(V)) optional(V)
orValue .optional_orValue_value(optional(V) V) V
unwrapOpt .optional_unwrapOpt(list(optional(V))) list(V)
value .optional_value(optional(V)) V
"""

_NETWORK = """
cidr string_to_cidr(string) CIDR
containsCIDR .cidr_contains_cidr_string(CIDR string) bool
containsCIDR .cidr_contains_cidr(CIDR CIDR) bool
containsIP .cidr_contains_ip_string(CIDR string) bool
containsIP .cidr_contains_ip_ip(CIDR IP) bool
family .ip_family(IP) int
getEscapedPath .url_get_escaped_path(URL) string
getHost .url_get_host(URL) string
getHostname .url_get_hostname(URL) string
getPort .url_get_port(URL) string
getQuery .url_get_query(URL) map(string,list(string))
getScheme .url_get_scheme(URL) string
ip string_to_ip(string) IP
ip .cidr_ip(CIDR) IP
ip.isCanonical ip_is_canonical(string) bool
isCIDR is_cidr(string) bool
isGlobalUnicast .ip_is_global_unicast(IP) bool
isIP is_ip(string) bool
isLinkLocalMulticast .ip_is_link_local_multicast(IP) bool
isLinkLocalUnicast .ip_is_link_local_unicast(IP) bool
isLoopback .ip_is_loopback(IP) bool
isURL is_url_string(string) bool
isUnspecified .ip_is_unspecified(IP) bool
masked .cidr_masked(CIDR) CIDR
prefixLength .cidr_prefix_length(CIDR) int
url string_to_url(string) URL
"""

_KUBERNETES = """
add .quantity_add(Quantity Quantity) Quantity
add .quantity_add_int(Quantity int) Quantity
asApproximateFloat .quantity_get_float(Quantity) double
asInteger .quantity_get_int(Quantity) int
compareTo .quantity_compare_to(Quantity Quantity) int
compareTo .semver_compare_to(Semver Semver) int
format.named format-named(string) optional(NamedFormat)
isGreaterThan .quantity_is_greater_than(Quantity Quantity) bool
isGreaterThan .semver_is_greater_than(Semver Semver) bool
isInteger .quantity_is_integer(Quantity) bool
isLessThan .quantity_is_less_than(Quantity Quantity) bool
isLessThan .semver_is_less_than(Semver Semver) bool
isQuantity is_quantity_string(string) bool
isSemver is_semver_string(string) bool
isSemver is_semver_string_bool(string bool) bool
major .semver_major(Semver) int
minor .semver_minor(Semver) int
patch .semver_patch(Semver) int
quantity string_to_quantity(string) Quantity
semver string_to_semver(string) Semver
semver string_bool_to_semver(string bool) Semver
sign quantity_sign(Quantity) int
sub .quantity_sub(Quantity Quantity) Quantity
sub .quantity_sub_int(Quantity int) Quantity
validate .format-validate(NamedFormat string) optional(list(string))
"""

_NAMED_FORMATS = "\n".join(f"format.{name} format.{name}() NamedFormat" for name in FORMATS)

_LISTS = f"""
cel.@mapInsert @mapInsert_map_key_value(map(K,V) K V) map(K,V)
cel.@mapInsert @mapInsert_map_map(map(K,V) map(K,V)) map(K,V)
distinct .list_distinct(list(T)) list(T)
flatten .list_flatten(list(list(T))) list(T)
flatten .list_flatten_int(list(dyn) int) list(dyn)
indexOf .list_a_index_of_int(list(A) A) int
lastIndexOf .list_a_last_index_of_int(list(A) A) int
lists.range lists_range(int) list(int)
reverse .list_reverse(list(T)) list(T)
sets.contains list_sets_contains_list(list(T) list(T)) bool
sets.equivalent list_sets_equivalent_list(list(T) list(T)) bool
sets.intersects list_sets_intersects_list(list(T) list(T)) bool
slice .list_slice(list(T) int int) list(T)
{_each("isSorted .list_{name}_is_sorted_bool(list({name})) bool")}
{_each("max .list_{name}_max_{name}(list({name})) {name}")}
{_each("min .list_{name}_min_{name}(list({name})) {name}")}
{_each("sum .list_{name}_sum_{name}(list({name})) {name}", (*_COMPARABLE[:3], _COMPARABLE[4]))}
{_each("sort .list_{full}_sort(list({name})) list({name})")}
{_each("@sortByAssociatedKeys .list_{full}_sortByAssociatedKeys(list(T) list({name})) list(T)")}
"""

_INCLUDES = "includes .list_includes_dyn_dyn(dyn dyn) bool"

# Selectors have no authorizer to call these on, yet they are declared, so that `dyn(1).path("x")` compiles and fails later.
_AUTHORIZATION = """
allowed .decision_allowed(Decision) bool
check .pathcheck_check(PathCheck string) Decision
check .resourcecheck_check(ResourceCheck string) Decision
error .decision_error(Decision) string
errored .decision_errored(Decision) bool
fieldSelector .authorizer_fieldselector(ResourceCheck string) ResourceCheck
group .authorizer_group(Authorizer string) GroupCheck
labelSelector .authorizer_labelselector(ResourceCheck string) ResourceCheck
name .resourcecheck_name(ResourceCheck string) ResourceCheck
namespace .resourcecheck_namespace(ResourceCheck string) ResourceCheck
path .authorizer_path(Authorizer string) PathCheck
reason .decision_reason(Decision) string
resource .groupcheck_resource(GroupCheck string) ResourceCheck
serviceAccount .authorizer_serviceaccount(Authorizer string string) Authorizer
subresource .resourcecheck_subresource(ResourceCheck string) ResourceCheck
"""


@cache
def functions(*, has_includes: bool) -> dict[str, tuple[Overload, ...]]:
    """All functions by name; ``includes`` comes with list-type attributes."""
    tables = [OPERATORS, STANDARD, _LISTS, _STRINGS, _OPTIONALS, _NETWORK, _KUBERNETES, _NAMED_FORMATS, _AUTHORIZATION]
    if has_includes:
        tables.append(_INCLUDES)
    found: dict[str, tuple[Overload, ...]] = {}
    for overload in parse_signatures("\n".join(tables)):
        found[overload.function] = (*found.get(overload.function, ()), overload)
    return found


@cache
def overloads_by_id() -> dict[str, Overload]:
    """All overloads by id."""
    return {overload.id: overload for group in functions(has_includes=True).values() for overload in group}
