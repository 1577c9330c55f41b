/* How a GPU is, and what it is busy with. */
#include "nvml_stub.h"

/* Each of these calls can be refused by a line of the description: "refuses nvmlDeviceGetPowerUsage 3". */
static int refuses(const gpu *g, const char *call) {
    for (unsigned i = 0; i < g->refusals; i++) if (!strcmp(g->refused[i].call, call)) return g->refused[i].code;
    return OK;
}

#define ASKED(device) GPU(device); if (refuses(g, __func__)) return refuses(g, __func__)

/* ---- its condition ---- */

#ifndef OLD_DRIVER

#define FIELD_RECOVERY_ACTION 230
enum { TYPE_UNSIGNED = 1 };
typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    int type, code;
    union { double d; unsigned u; unsigned long long ull; } value;
} field_value;

static int fill_field(const gpu *g, field_value *to) {
    if (to->id != FIELD_RECOVERY_ACTION || atoi(machine.version) < 565) return INVALID;
    if (refuses(g, "field")) return refuses(g, "field");
    if (g->arch < 7) return NOT_SUPPORTED;
    to->type = TYPE_UNSIGNED;
    to->value.u = g->recovery;
    return OK;
}

/* The call succeeds where a field does not: each field has a code of its own. */
int nvmlDeviceGetFieldValues(void *device, int count, field_value *fields) {
    ASKED(device);
    if (count < 1 || !fields) return INVALID;
    for (int i = 0; i < count; i++) {
        memset(&fields[i].value, 0xA5, sizeof fields[i].value); /* what a refused field holds means nothing */
        fields[i].code = fill_field(g, &fields[i]);
    }
    return OK;
}

int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    ASKED(device);
    if (!g->has_rows) return NOT_SUPPORTED;
    *corrected = g->rows[0]; *uncorrected = g->rows[1]; *pending = g->rows[2]; *failed = g->rows[3];
    return OK;
}

int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *to) { ASKED(device); *to = g->reasons; return OK; }

#endif

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *to) { ASKED(device); *to = g->reasons; return OK; }

/* Uncorrected is 1, and since the last reset is 0: another pair is another number. */
int nvmlDeviceGetTotalEccErrors(void *device, unsigned kind, unsigned counter, unsigned long long *to) {
    ASKED(device);
    if (kind > 1 || counter > 1) return INVALID;
    if (g->ecc < 0) return NOT_SUPPORTED;
    *to = kind == 1 && counter == 0 ? (unsigned long long)g->ecc : 1000000;
    return OK;
}

/* ---- what it is busy with ---- */

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *to) {
    ASKED(device);
    if (!g->memory) return NOT_SUPPORTED;
    to[0] = g->memory; to[1] = g->memory - g->memory_used; to[2] = g->memory_used;
    return OK;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned *to) {
    ASKED(device);
    if (g->mode) return NOT_SUPPORTED;
    to[0] = g->percent; to[1] = 0;
    return OK;
}

int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *to) {
    ASKED(device);
    if (sensor) return INVALID;
    *to = (unsigned)g->celsius;
    return OK;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *to) { ASKED(device); *to = g->milliwatts; return OK; }

/* A structure says its version: the size in the lower, the number in the upper byte. */
#ifndef OLD_DRIVER
typedef struct { unsigned version; unsigned long long total, reserved, unused, used; } memory_v2;
typedef struct { unsigned version, sensor; int celsius; } temperature_v1;

int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *to) {
    ASKED(device);
    if (to->version != (sizeof *to | 2u << 24)) return WRONG_VERSION;
    if (!g->memory) return NOT_SUPPORTED;
    to->total = g->memory; to->reserved = g->memory / 100; to->used = g->memory_used;
    to->unused = to->total - to->reserved - to->used;
    return OK;
}

int nvmlDeviceGetTemperatureV(void *device, temperature_v1 *to) {
    ASKED(device);
    if (to->version != (sizeof *to | 1u << 24)) return WRONG_VERSION;
    if (to->sensor) return INVALID;
    to->celsius = g->celsius;
    return OK;
}
#endif
