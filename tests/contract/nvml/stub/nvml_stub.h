/*
 * A small libnvidia-ml.so.1 for the contract tests: it makes pynvml's ctypes code run without a GPU.
 *
 * nvmlInit reads a description (environment variable NVML_STUB): one line a fact, written by tests/contract/nvml/describe.py.
 * MIG changes live as long as the library is loaded. nvmlEventSetWait takes events from the file "<description>.events".
 * While the file "<description>.hang" exists and names a GPU's index, nvmlDeviceGetUUID of this GPU does not come back; NVML must
 * not be shut down below it, and refuses to be. A GPU that "<description>.lost" names is lost from then on.
 * Structures and numbers are NVML's; nothing here is copied from its header.
 */
#ifndef NVML_STUB_H
#define NVML_STUB_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, NOT_LOADED = 9, TIMEOUT = 10,
       LOST = 15, RESET_REQUIRED = 16, IN_USE = 19, NO_ROOM = 23, WRONG_VERSION = 25 };

#define GPUS 64
#define LINKS 36
#define PROFILES 20
#define INSTANCES 15
#define COMPUTE 8
#define REFUSALS 16

typedef struct { unsigned start, size; } placement;
typedef struct { unsigned id, p2p, slices, count, sm, ce, dec, enc, jpeg, ofa; unsigned long long mib; } gi_profile;
typedef struct { unsigned id, slices, count, sm, ce, dec, enc, jpeg, ofa; } ci_profile;
typedef struct { unsigned number, placements; gi_profile info; placement at[16]; } profile;

struct gpu;
struct gi;
typedef struct ci { struct gi *gi; unsigned used, id, profile; placement at; } ci;
typedef struct gi { struct gpu *gpu; unsigned used, id, profile; placement at; ci ci[COMPUTE]; } gi;
typedef struct { int up, kind; char bus[32]; unsigned device_id; } link;
typedef struct { char call[64]; int code; } refusal;
typedef struct gpu {
    int is_mig, index;
    char uuid[96], name[128], bus[32];
    unsigned minor, brand, arch, major, cc_minor, device_id, lost, module, has_module, addressing, has_addressing, virtualization,
             compute_mode;
    unsigned long long memory, memory_used, reasons;
    long long ecc;
    int has_rows, celsius;
    unsigned recovery, rows[4], percent, milliwatts, refusals;
    refusal refused[REFUSALS];
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

extern int opened;
extern machine_facts machine;
extern gpu gpus[GPUS];
extern char description[4096];

gpu *is_gpu(void *device);
int is_lost(const gpu *g);
mig_device *is_mig_device(void *device);
mig_device *mig_device_of(ci *c);

#define OPEN if (!opened) return UNINITIALIZED
#define GPU(device) OPEN; gpu *g = is_gpu(device); if (!g) return INVALID; if (is_lost(g)) return LOST
#define MIG(device) GPU(device); if (!g->mig_capable) return NOT_SUPPORTED

#endif
