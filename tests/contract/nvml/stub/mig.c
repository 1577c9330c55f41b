/* MIG, and events. */
#include "nvml_stub.h"

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

/* ---- events ---- */

/* The driver that brought each: 560 the five about memory, 565 "unavailable" and "recovery action". */
static unsigned long long event_types(void) {
    int major = atoi(machine.version);
    return 0xBull | (major >= 560 ? 0x3E00ull : 0) | (major >= 565 ? 0xC000ull : 0);
}
int nvmlDeviceGetSupportedEventTypes(void *device, unsigned long long *to) { GPU(device); *to = event_types(); return OK; }
int nvmlEventSetCreate(void **to) { OPEN; *to = calloc(1, sizeof(event_set)); return OK; }
int nvmlEventSetFree(event_set *set) { OPEN; free(set); return OK; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, event_set *set) {
    GPU(device);
    if (types & ~event_types()) return NOT_SUPPORTED;
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
