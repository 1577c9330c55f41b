/*
 * A small libnvidia-ml.so.1 for the contract tests: it makes pynvml's ctypes code run without a GPU.
 *
 * nvmlInit reads a description (environment variable NVML_STUB): one line a fact, written by tests/contract/nvml/describe.py.
 * MIG changes live as long as the library is loaded. nvmlEventSetWait takes events from the file "<description>.events".
 * Structures and numbers are NVML's; nothing here is copied from its header.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9, TIMEOUT = 10,
       LOST = 15, RESET_REQUIRED = 16, IN_USE = 19, NO_ROOM = 23 };

#define GPUS 64
#define LINKS 36
#define PROFILES 20
#define INSTANCES 15
#define COMPUTE 8

typedef struct { unsigned start, size; } placement;
typedef struct { unsigned id, p2p, slices, count, sm, ce, dec, enc, jpeg, ofa; unsigned long long mib; } gi_profile;
typedef struct { unsigned id, slices, count, sm, ce, dec, enc, jpeg, ofa; } ci_profile;
typedef struct { unsigned number, placements; gi_profile info; placement at[16]; } profile;

struct gpu;
struct gi;
typedef struct ci { struct gi *gi; unsigned used, id, profile; placement at; } ci;
typedef struct gi { struct gpu *gpu; unsigned used, id, profile; placement at; ci ci[COMPUTE]; } gi;
typedef struct { int up, kind; char bus[32]; unsigned device_id; } link;
typedef struct gpu {
    int is_mig, index;
    char uuid[96], name[128], bus[32];
    unsigned minor, brand, arch, major, cc_minor, device_id, lost, module, has_module, addressing, has_addressing, virtualization;
    unsigned long long memory;
    unsigned ports;
    link links[LINKS];
    int fabric;
    unsigned char cluster[16];
    unsigned clique, fabric_state;
    unsigned mig_capable, mig_resets, mode, pending, memory_slices, compute_slices, profile_count;
    profile profiles[PROFILES];
    gi gi[INSTANCES];
} gpu;
typedef struct { int is_mig; gpu *parent; ci *ci; } mig_device;
typedef struct { char version[32]; unsigned cuda, count, loaded; } machine_facts;
typedef struct { unsigned long long types[GPUS]; } event_set;
typedef struct { gpu *device; unsigned long long type, data; unsigned gi, ci; } event_data;
typedef struct { char legacy[16]; unsigned domain, bus, device, device_id, subsystem; char bus_id[32]; } pci_info;

static int opened;
static machine_facts machine;
static gpu gpus[GPUS];
static int levels[GPUS][GPUS];
static mig_device mig_devices[GPUS][INSTANCES * COMPUTE];
static char description[4096];

/* ---- the description ---- */

static void unescape(char *to, size_t size, const char *from) {
    size_t n = 0;
    for (; *from && *from != '\n' && n + 1 < size; from++) {
        unsigned byte;
        if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1) { to[n++] = (char)byte; from += 2; }
        else to[n++] = *from;
    }
    to[n] = 0;
}

static void read_gpu_line(gpu *g, const char *key, const char *rest) {
    unsigned a, b, c, d;
    int used = 0;
    char word[64];
    if (!strcmp(key, "uuid")) unescape(g->uuid, sizeof g->uuid, rest);
    else if (!strcmp(key, "name")) unescape(g->name, sizeof g->name, rest);
    else if (!strcmp(key, "bus")) unescape(g->bus, sizeof g->bus, rest);
    else if (!strcmp(key, "facts"))
        sscanf(rest, "%u %u %u %u %u %u %llu %u %u", &g->minor, &g->brand, &g->arch, &g->major, &g->cc_minor, &g->device_id, &g->memory,
               &g->virtualization, &g->lost);
    else if (!strcmp(key, "module")) { g->has_module = 1; sscanf(rest, "%u", &g->module); }
    else if (!strcmp(key, "addressing")) { g->has_addressing = 1; sscanf(rest, "%u", &g->addressing); }
    else if (!strcmp(key, "ports")) sscanf(rest, "%u", &g->ports);
    else if (!strcmp(key, "link")) {
        if (sscanf(rest, "%u %u %u %u %31s", &a, &b, &c, &d, word) == 5 && a < LINKS) {
            g->links[a].up = (int)b; g->links[a].kind = (int)c; g->links[a].device_id = d; strcpy(g->links[a].bus, word);
        }
    } else if (!strcmp(key, "fabric")) {
        g->fabric = 1;
        sscanf(rest, "%u %u %n", &g->clique, &g->fabric_state, &used);
        for (int i = 0; i < 16; i++) { sscanf(rest + used + 2 * i, "%2x", &a); g->cluster[i] = (unsigned char)a; }
    } else if (!strcmp(key, "mig")) {
        g->mig_capable = 1;
        sscanf(rest, "%u %u %u %u", &g->mig_resets, &g->mode, &g->memory_slices, &g->compute_slices);
        g->pending = g->mode;
    } else if (!strcmp(key, "profile") && g->profile_count < PROFILES) {
        profile *p = &g->profiles[g->profile_count++];
        gi_profile *i = &p->info;
        sscanf(rest, "%u %u %u %u %u %u %u %u %u %u %llu%n", &p->number, &i->id, &i->slices, &i->count, &i->sm, &i->ce, &i->dec, &i->enc,
               &i->jpeg, &i->ofa, &i->mib, &used);
        for (rest += used; p->placements < 16 && sscanf(rest, " %u:%u%n", &a, &b, &used) == 2; rest += used)
            p->at[p->placements++] = (placement){a, b};
    }
}

static int read_description(void) {
    static char line[4096];
    const char *path = getenv("NVML_STUB");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return NOT_LOADED;
    snprintf(description, sizeof description, "%s", path);
    memset(&machine, 0, sizeof machine);
    memset(gpus, 0, sizeof gpus);
    memset(levels, 0, sizeof levels);
    while (fgets(line, sizeof line, file)) {
        unsigned index, other;
        int used = 0, level;
        char key[32];
        if (sscanf(line, "machine %31s %u", machine.version, &machine.cuda) == 2) continue;
        if (sscanf(line, "level %u %u %d", &index, &other, &level) == 3 && index < GPUS && other < GPUS) {
            levels[index][other] = levels[other][index] = level;
        } else if (sscanf(line, "gpu %u %31s %n", &index, key, &used) == 2 && index < GPUS && used) {
            gpus[index].index = (int)index;
            if (index >= machine.count) machine.count = index + 1;
            read_gpu_line(&gpus[index], key, line + used);
        }
    }
    fclose(file);
    return OK;
}

/* ---- handles ---- */

static gpu *is_gpu(void *device) {
    for (unsigned i = 0; i < machine.count; i++) if (device == &gpus[i]) return &gpus[i];
    return NULL;
}

static mig_device *is_mig_device(void *device) {
    char *p = device, *first = (char *)mig_devices, *end = first + sizeof mig_devices;
    return p >= first && p < end ? device : NULL;
}

#define OPEN if (!opened) return UNINITIALIZED
#define GPU(device) OPEN; gpu *g = is_gpu(device); if (!g) return INVALID; if (g->lost) return LOST
#define MIG(device) GPU(device); if (!g->mig_capable) return NOT_SUPPORTED

static int put(char *to, unsigned size, const char *text) {
    if (strlen(text) > size) return TOO_SMALL;
    /* As some drivers did: a text that fills the buffer has no NUL at its end. */
    strncpy(to, text, size);
    return OK;
}

/* ---- the library, the machine ---- */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!opened) {
        int code = read_description();
        if (code) return code;
    }
    opened++;
    return OK;
}

int nvmlShutdown(void) { OPEN; opened--; return OK; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { OPEN; return put(to, size, machine.version); }
int nvmlSystemGetCudaDriverVersion(int *to) { OPEN; *to = (int)machine.cuda; return OK; }
int nvmlDeviceGetCount_v2(unsigned *to) { OPEN; *to = machine.count; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) {
    OPEN;
    if (index >= machine.count) return INVALID;
    if (gpus[index].lost) return LOST;
    *to = &gpus[index];
    return OK;
}

static void mig_uuid(const ci *c, char *to) {
    sprintf(to, "MIG-00000000-0000-4000-8000-%04x%04x%04x", (unsigned)c->gi->gpu->index, c->gi->id, c->id);
}

static mig_device *mig_device_of(ci *c) {
    mig_device *m = &mig_devices[c->gi->gpu->index][c->gi->id * COMPUTE + c->id];
    *m = (mig_device){1, c->gi->gpu, c};
    return m;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **to) {
    OPEN;
    for (unsigned i = 0; i < machine.count; i++) {
        if (!strcmp(gpus[i].uuid, uuid)) { if (gpus[i].lost) return LOST; *to = &gpus[i]; return OK; }
        for (int j = 0; j < INSTANCES; j++)
            for (int k = 0; k < COMPUTE; k++) {
                ci *c = &gpus[i].gi[j].ci[k];
                char own[96], legacy[192];
                if (!gpus[i].gi[j].used || !c->used) continue;
                mig_uuid(c, own);
                sprintf(legacy, "MIG-%s/%d/%d", gpus[i].uuid, j, k);
                if (!strcmp(own, uuid) || !strcmp(legacy, uuid)) { *to = mig_device_of(c); return OK; }
            }
    }
    return NOT_FOUND;
}

static int parse_bus(const char *text, unsigned at[4]) {
    at[0] = 0;
    if (sscanf(text, "%x:%x:%x.%x", &at[0], &at[1], &at[2], &at[3]) == 4) return 1;
    at[0] = 0;
    return sscanf(text, "%x:%x.%x", &at[1], &at[2], &at[3]) == 3;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **to) {
    unsigned wanted[4], own[4];
    OPEN;
    if (!parse_bus(bus, wanted)) return INVALID;
    for (unsigned i = 0; i < machine.count; i++)
        if (parse_bus(gpus[i].bus, own) && !memcmp(own, wanted, sizeof own)) {
            if (gpus[i].lost) return LOST;
            *to = &gpus[i];
            return OK;
        }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(void *device, char *to, unsigned size) {
    OPEN;
    mig_device *m = is_mig_device(device);
    if (m) { char text[96]; mig_uuid(m->ci, text); return put(to, size, text); }
    GPU(device);
    return put(to, size, g->uuid);
}

int nvmlDeviceGetMinorNumber(void *device, unsigned *to) { GPU(device); *to = g->minor; return OK; }
int nvmlDeviceGetName(void *device, char *to, unsigned size) { GPU(device); return put(to, size, g->name); }
int nvmlDeviceGetBrand(void *device, unsigned *to) { GPU(device); *to = g->brand; return OK; }
int nvmlDeviceGetArchitecture(void *device, unsigned *to) { GPU(device); *to = g->arch; return OK; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    GPU(device);
    *major = (int)g->major; *minor = (int)g->cc_minor;
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *to) {
    GPU(device);
    if (!g->memory) return NOT_SUPPORTED;
    to[0] = to[1] = g->memory; to[2] = 0;
    return OK;
}

static void fill_pci(pci_info *to, const char *bus, unsigned device_id) {
    unsigned at[4] = {0};
    memset(to, 0, sizeof *to);
    parse_bus(bus, at);
    to->domain = at[0]; to->bus = at[1]; to->device = at[2]; to->device_id = device_id;
    strncpy(to->bus_id, bus, sizeof to->bus_id);
}

int nvmlDeviceGetPciInfo_v3(void *device, pci_info *to) { GPU(device); fill_pci(to, g->bus, g->device_id); return OK; }
#ifndef OLD_DRIVER
int nvmlDeviceGetAddressingMode(void *device, unsigned *to) {
    GPU(device);
    if (!g->has_addressing) return NOT_SUPPORTED;
    to[1] = g->addressing;
    return OK;
}
#endif
int nvmlDeviceGetModuleId(void *device, unsigned *to) {
    GPU(device);
    if (!g->has_module) return NOT_SUPPORTED;
    *to = g->module;
    return OK;
}
int nvmlDeviceGetVirtualizationMode(void *device, unsigned *to) { GPU(device); *to = g->virtualization; return OK; }

/* ---- links ---- */

static int check_link(const gpu *g, unsigned number) { return !g->ports ? NOT_SUPPORTED : number >= g->ports ? INVALID : OK; }

int nvmlDeviceGetNvLinkState(void *device, unsigned number, unsigned *to) {
    GPU(device);
    int code = check_link(g, number);
    if (!code) *to = (unsigned)g->links[number].up;
    return code;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned number, pci_info *to) {
    GPU(device);
    int code = check_link(g, number);
    if (code) return code;
    if (!g->links[number].bus[0]) return NOT_SUPPORTED;
    fill_pci(to, g->links[number].bus, g->links[number].device_id);
    return OK;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned number, unsigned *to) {
    GPU(device);
    int code = check_link(g, number);
    if (code) return code;
    if (!g->links[number].bus[0]) return NOT_SUPPORTED;
    *to = (unsigned)g->links[number].kind;
    return OK;
}

int nvmlDeviceGetTopologyCommonAncestor(void *first, void *second, unsigned *to) {
    GPU(first);
    gpu *other = is_gpu(second);
    if (!other) return INVALID;
    if (other->lost) return LOST;
    *to = (unsigned)levels[g->index][other->index];
    return OK;
}

typedef struct { unsigned char cluster[16]; unsigned status, clique, state; } fabric_info;
typedef struct { unsigned version; fabric_info info; unsigned health; } fabric_info_v2;

static int fill_fabric(const gpu *g, fabric_info *to) {
    if (!g->fabric) return NOT_SUPPORTED;
    memcpy(to->cluster, g->cluster, 16);
    to->status = OK; to->clique = g->clique; to->state = g->fabric_state;
    return OK;
}

int nvmlDeviceGetGpuFabricInfo(void *device, fabric_info *to) { GPU(device); return fill_fabric(g, to); }
#ifndef OLD_DRIVER
int nvmlDeviceGetGpuFabricInfoV(void *device, fabric_info_v2 *to) {
    GPU(device);
    if (to->version != 0x02000024) return 25;
    return fill_fabric(g, &to->info);
}
#endif

/* ---- MIG ---- */

int nvmlDeviceGetMigMode(void *device, unsigned *current, unsigned *pending) {
    MIG(device);
    *current = g->mode; *pending = g->pending;
    return OK;
}

int nvmlDeviceSetMigMode(void *device, unsigned mode, unsigned *status) {
    MIG(device);
    for (int i = 0; i < INSTANCES; i++) if (!mode && g->gi[i].used) return IN_USE;
    g->pending = mode;
    *status = g->mig_resets && g->mode != mode ? RESET_REQUIRED : OK;
    if (!g->mig_resets) g->mode = mode;
    return OK;
}

static profile *find_profile(gpu *g, unsigned id) {
    for (unsigned i = 0; i < g->profile_count; i++) if (g->profiles[i].info.id == id) return &g->profiles[i];
    return NULL;
}

int nvmlDeviceGetGpuInstanceProfileInfo(void *device, unsigned number, gi_profile *to) {
    MIG(device);
    if (number >= 0x12) return INVALID;
    for (unsigned i = 0; i < g->profile_count; i++)
        if (g->profiles[i].number == number) { *to = g->profiles[i].info; return OK; }
    return NOT_SUPPORTED;
}

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *device, unsigned id, placement *to, unsigned *count) {
    MIG(device);
    profile *p = find_profile(g, id);
    if (!p || (g->mig_resets && !g->mode)) return NOT_SUPPORTED;
    if (to && *count < p->placements) return TOO_SMALL;
    *count = p->placements;
    if (to) memcpy(to, p->at, p->placements * sizeof *to);
    return OK;
}

int nvmlDeviceCreateGpuInstanceWithPlacement(void *device, unsigned id, const placement *at, void **to) {
    MIG(device);
    profile *p = find_profile(g, id);
    unsigned legal = 0, same = 0, slices = 0;
    if (!g->mode || !p) return NOT_SUPPORTED;
    for (unsigned i = 0; i < p->placements; i++) legal |= p->at[i].start == at->start && p->at[i].size == at->size;
    if (!legal) return INVALID;
    for (int i = 0; i < INSTANCES; i++) {
        gi *other = &g->gi[i];
        if (!other->used) continue;
        if (at->start < other->at.start + other->at.size && other->at.start < at->start + at->size) return NO_ROOM;
        same += other->profile == id;
        slices += find_profile(g, other->profile)->info.slices;
    }
    if (same >= p->info.count || slices + p->info.slices > g->compute_slices) return NO_ROOM;
    unsigned share = g->memory_slices / at->size;
    for (unsigned i = share - 1; i < 2 * share - 1 && i < INSTANCES; i++)
        if (!g->gi[i].used) {
            g->gi[i] = (gi){.gpu = g, .used = 1, .id = i, .profile = id, .at = *at};
            *to = &g->gi[i];
            return OK;
        }
    return NO_ROOM;
}

int nvmlDeviceGetGpuInstances(void *device, unsigned id, void **to, unsigned *count) {
    MIG(device);
    if (!find_profile(g, id)) return NOT_SUPPORTED;
    *count = 0;
    for (int i = 0; i < INSTANCES; i++) if (g->gi[i].used && g->gi[i].profile == id) to[(*count)++] = &g->gi[i];
    return OK;
}

int nvmlDeviceGetGpuInstanceById(void *device, unsigned id, void **to) {
    MIG(device);
    if (id >= INSTANCES || !g->gi[id].used) return NOT_FOUND;
    *to = &g->gi[id];
    return OK;
}

typedef struct { void *device; unsigned id, profile; placement at; } gi_info;
typedef struct { void *device, *gi; unsigned id, profile; placement at; } ci_info;

int nvmlGpuInstanceGetInfo(gi *i, gi_info *to) {
    OPEN;
    if (!i->used) return NOT_FOUND;
    *to = (gi_info){i->gpu, i->id, i->profile, i->at};
    return OK;
}

int nvmlGpuInstanceDestroy(gi *i) {
    OPEN;
    if (!i->used) return NOT_FOUND;
    for (int k = 0; k < COMPUTE; k++) if (i->ci[k].used) return IN_USE;
    i->used = 0;
    return OK;
}

static const unsigned ci_sizes[] = {1, 2, 3, 4, 7};

static int fill_ci_profile(gi *i, unsigned number, ci_profile *to) {
    profile *p = find_profile(i->gpu, i->profile);
    unsigned one = p->info.sm, slices = p->info.slices;
    for (unsigned k = 0; k < i->gpu->profile_count; k++) if (i->gpu->profiles[k].info.sm < one) one = i->gpu->profiles[k].info.sm;
    memset(to, 0, sizeof *to);
    to->id = number;
    if (number == 7 && slices == 1 && p->info.sm > one) { to->slices = to->count = 1; to->sm = p->info.sm; return OK; }
    if (number > 4 || ci_sizes[number] > slices || (slices == 4 && ci_sizes[number] == 3)) return NOT_SUPPORTED;
    to->slices = ci_sizes[number];
    to->count = slices / to->slices;
    to->sm = to->slices == slices && slices > 1 ? p->info.sm : to->slices * one;
    return OK;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(gi *i, unsigned number, unsigned engine, ci_profile *to) {
    OPEN;
    if (!i->used) return NOT_FOUND;
    if (number >= 9 || engine) return INVALID;
    return fill_ci_profile(i, number, to);
}

int nvmlGpuInstanceCreateComputeInstance(gi *i, unsigned number, void **to) {
    ci_profile p;
    unsigned taken = 0;
    OPEN;
    if (!i->used) return NOT_FOUND;
    int code = fill_ci_profile(i, number, &p);
    if (code) return code;
    for (int k = 0; k < COMPUTE; k++)
        if (i->ci[k].used) for (unsigned s = 0; s < i->ci[k].at.size; s++) taken |= 1u << (i->ci[k].at.start + s);
    unsigned slices = find_profile(i->gpu, i->profile)->info.slices, mask = (1u << p.slices) - 1;
    for (unsigned start = 0; start + p.slices <= slices; start++)
        if (!(taken & mask << start))
            for (unsigned k = 0; k < COMPUTE; k++)
                if (!i->ci[k].used) {
                    i->ci[k] = (ci){i, 1, k, number, {start, p.slices}};
                    *to = &i->ci[k];
                    return OK;
                }
    return NO_ROOM;
}

int nvmlGpuInstanceGetComputeInstances(gi *i, unsigned number, void **to, unsigned *count) {
    OPEN;
    if (!i->used) return NOT_FOUND;
    *count = 0;
    for (int k = 0; k < COMPUTE; k++) if (i->ci[k].used && i->ci[k].profile == number) to[(*count)++] = &i->ci[k];
    return OK;
}

int nvmlComputeInstanceGetInfo_v2(ci *c, ci_info *to) {
    OPEN;
    if (!c->used) return NOT_FOUND;
    *to = (ci_info){mig_device_of(c), c->gi, c->id, c->profile, c->at};
    return OK;
}

int nvmlComputeInstanceDestroy(ci *c) { OPEN; if (!c->used) return NOT_FOUND; c->used = 0; return OK; }

int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *to) {
    GPU(device);
    *to = g->mig_capable && g->mode ? g->compute_slices : 0;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **to) {
    MIG(device);
    if (index >= g->compute_slices) return INVALID;
    for (int i = 0; i < INSTANCES; i++)
        for (int k = 0; k < COMPUTE; k++)
            if (g->gi[i].used && g->gi[i].ci[k].used && index-- == 0) { *to = mig_device_of(&g->gi[i].ci[k]); return OK; }
    return NOT_FOUND;
}

#define MIG_DEVICE(device) OPEN; mig_device *m = is_mig_device(device); if (!m) return INVALID
int nvmlDeviceGetGpuInstanceId(void *device, unsigned *to) { MIG_DEVICE(device); *to = m->ci->gi->id; return OK; }
int nvmlDeviceGetComputeInstanceId(void *device, unsigned *to) { MIG_DEVICE(device); *to = m->ci->id; return OK; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *device, void **to) { MIG_DEVICE(device); *to = m->parent; return OK; }

/* ---- events ---- */

#define EVENT_TYPES 0xBull
int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *to) { GPU(device); *to = EVENT_TYPES; return OK; }
int nvmlEventSetCreate(void **to) { OPEN; *to = calloc(1, sizeof(event_set)); return OK; }
int nvmlEventSetFree(event_set *set) { OPEN; free(set); return OK; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, event_set *set) {
    GPU(device);
    if (types & ~EVENT_TYPES) return NOT_SUPPORTED;
    set->types[g->index] |= types;
    return OK;
}

static int take_event(event_set *set, event_data *to) {
    char path[4200];
    unsigned index, found = 0;
    snprintf(path, sizeof path, "%s.events", description);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%u %llu %llu %u %u", &index, &to->type, &to->data, &to->gi, &to->ci) == 5 && index < machine.count) {
        to->device = &gpus[index];
        found = (set->types[index] & to->type) != 0;
    }
    fclose(file);
    remove(path);
    return (int)found;
}

int nvmlEventSetWait_v2(event_set *set, event_data *to, unsigned timeout_ms) {
    struct timespec step = {0, 10 * 1000 * 1000};
    OPEN;
    for (unsigned waited = 0;; waited += 10) {
        if (take_event(set, to)) return OK;
        if (waited >= timeout_ms) return TIMEOUT;
        nanosleep(&step, NULL);
    }
}
