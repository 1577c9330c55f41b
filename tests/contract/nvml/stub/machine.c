/* The description, handles, and what is said about the library and about GPUs. */
#include "nvml_stub.h"

int opened;
machine_facts machine;
gpu gpus[GPUS];
static int levels[GPUS][GPUS];
static int hanging;
static mig_device mig_devices[GPUS][INSTANCES * COMPUTE];
char description[4096];

/* ---- what goes wrong while the library is open ---- */

static int is_named(const char *ending, int index) {
    char path[sizeof description + 8];
    int named = -1;
    snprintf(path, sizeof path, "%s.%s", description, ending);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%d", &named) != 1) named = -1;
    fclose(file);
    return named == index;
}

int is_lost(const gpu *g) { return g->lost || is_named("lost", g->index); }

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
    else if (!strcmp(key, "condition"))
        sscanf(rest, "%u %lld %d %u %u %u %u %llx", &g->recovery, &g->ecc, &g->has_rows, &g->rows[0], &g->rows[1], &g->rows[2],
               &g->rows[3], &g->reasons);
    else if (!strcmp(key, "figures")) sscanf(rest, "%u %llu %d %u", &g->percent, &g->memory_used, &g->celsius, &g->milliwatts);
    else if (!strcmp(key, "refuses") && g->refusals < REFUSALS) {
        refusal *r = &g->refused[g->refusals++];
        sscanf(rest, "%63s %d", r->call, &r->code);
    } else if (!strcmp(key, "module")) { g->has_module = 1; sscanf(rest, "%u", &g->module); }
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

gpu *is_gpu(void *device) {
    for (unsigned i = 0; i < machine.count; i++) if (device == &gpus[i]) return &gpus[i];
    return NULL;
}

mig_device *is_mig_device(void *device) {
    char *p = device, *first = (char *)mig_devices, *end = first + sizeof mig_devices;
    return p >= first && p < end ? device : NULL;
}

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

int nvmlShutdown(void) {
    OPEN;
    if (opened == 1 && __atomic_load_n(&hanging, __ATOMIC_SEQ_CST)) return IN_USE;
    opened--;
    return OK;
}

int nvmlSystemGetDriverVersion(char *to, unsigned size) { OPEN; return put(to, size, machine.version); }
int nvmlSystemGetCudaDriverVersion(int *to) { OPEN; *to = (int)machine.cuda; return OK; }
int nvmlDeviceGetCount_v2(unsigned *to) { OPEN; *to = machine.count; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **to) {
    OPEN;
    if (index >= machine.count) return INVALID;
    if (is_lost(&gpus[index])) return LOST;
    *to = &gpus[index];
    return OK;
}

static void mig_uuid(const ci *c, char *to) {
    sprintf(to, "MIG-00000000-0000-4000-8000-%04x%04x%04x", (unsigned)c->gi->gpu->index, c->gi->id, c->id);
}

mig_device *mig_device_of(ci *c) {
    mig_device *m = &mig_devices[c->gi->gpu->index][c->gi->id * COMPUTE + c->id];
    *m = (mig_device){1, c->gi->gpu, c};
    return m;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **to) {
    OPEN;
    for (unsigned i = 0; i < machine.count; i++) {
        if (!strcmp(gpus[i].uuid, uuid)) { if (is_lost(&gpus[i])) return LOST; *to = &gpus[i]; return OK; }
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

static void hang(int index) {
    struct timespec step = {0, 5 * 1000 * 1000};
    __atomic_add_fetch(&hanging, 1, __ATOMIC_SEQ_CST);
    while (is_named("hang", index)) nanosleep(&step, NULL);
    __atomic_sub_fetch(&hanging, 1, __ATOMIC_SEQ_CST);
}

int nvmlDeviceGetUUID(void *device, char *to, unsigned size) {
    OPEN;
    mig_device *m = is_mig_device(device);
    if (m) { char text[96]; mig_uuid(m->ci, text); return put(to, size, text); }
    GPU(device);
    hang(g->index);
    return put(to, size, g->uuid);
}

int nvmlDeviceGetMinorNumber(void *device, unsigned *to) { GPU(device); *to = g->minor; return OK; }
int nvmlDeviceGetName(void *device, char *to, unsigned size) { GPU(device); return put(to, size, g->name); }
int nvmlDeviceGetBrand(void *device, unsigned *to) { GPU(device); *to = g->brand; return OK; }
int nvmlDeviceGetComputeMode(void *device, unsigned *to) { GPU(device); *to = g->compute_mode; return OK; }
int nvmlDeviceSetComputeMode(void *device, unsigned mode) {
    if (is_mig_device(device)) return NOT_SUPPORTED;
    GPU(device);
    if (mode > 3 || mode == 1) return INVALID;
    if (g->mode && mode) return NOT_SUPPORTED;
    g->compute_mode = mode;
    return OK;
}
int nvmlDeviceGetArchitecture(void *device, unsigned *to) { GPU(device); *to = g->arch; return OK; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    GPU(device);
    *major = (int)g->major; *minor = (int)g->cc_minor;
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
    if (is_lost(other)) return LOST;
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
    if (to->version != 0x02000024) return WRONG_VERSION;
    return fill_fabric(g, &to->info);
}
#endif
