/* A libnvidia-ml.so.1 without a driver: every answer comes from a scenario file, so that the real pynvml can be
 * shown cards that are healthy, throttled, lost, hanging or crashing.
 *
 * DDWATCH_NVML_SCENARIO names the file. It is read again whenever it changes (write it elsewhere and rename it). Each
 * line is one rule; the last rule that fits a question answers it:
 *
 *     [at SECONDS] gpu N|* KEY VALUE           a number or text
 *     [at SECONDS] gpu N|* KEY error CODE      an NVML return code; KEY may be * for every call
 *     [at SECONDS] gpu N|* KEY block           the call never returns
 *     [at SECONDS] gpu N|* KEY crash           the process dies of SIGSEGV
 *     [at SECONDS] sys KEY ...                 the same for calls without a card (init, count, driver)
 *     [at SECONDS] gpu N|* KEY wave LOW HIGH PERIOD    a number that goes up and down
 *     xid SERIAL N CODE                        an event, delivered once for each new SERIAL
 *
 * A card with a key `parts` is split (MIG) into so many; part M of card N answers as card 1000 + 16 N + M.
 *
 * SECONDS count from the loading of the library. A key without a rule is NVML_ERROR_NOT_SUPPORTED.
 */
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

#define SUCCESS 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define TIMEOUT 10
#define RULES_AT_MOST 4096
#define CARDS_AT_MOST 64
#define PARTS_AT_MOST 16
#define FIRST_PART 1000
#define SYSTEM (-2)
#define EVERY (-1)

enum kind { NUMBER, ERROR, BLOCK, CRASH, WAVE };

struct rule {
    double at;
    int gpu;
    char key[48];
    enum kind kind;
    double number, high, period;
    char text[112];
};

struct event {
    long serial;
    int gpu;
    unsigned long long code;
};

struct device {
    int index;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rule rules[RULES_AT_MOST];
static int rule_count;
static struct event events[256];
static int event_count;
static long delivered;
static struct device devices[CARDS_AT_MOST];
static struct device parts[CARDS_AT_MOST * PARTS_AT_MOST];
static struct timespec loaded;
static struct timespec changed;
static ino_t inode;

__attribute__((constructor)) static void begin(void)
{
    clock_gettime(CLOCK_MONOTONIC, &loaded);
    for (int i = 0; i < CARDS_AT_MOST; i++)
        devices[i].index = i;
    for (int i = 0; i < CARDS_AT_MOST * PARTS_AT_MOST; i++)
        parts[i].index = FIRST_PART + i;
}

static double elapsed(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - loaded.tv_sec) + (double)(now.tv_nsec - loaded.tv_nsec) * 1e-9;
}

static void take(char *line)
{
    double at = 0;
    int used = 0;
    if (sscanf(line, " at %lf %n", &at, &used) == 1)
        line += used;
    struct event *event = &events[event_count];
    if (event_count < 256 && sscanf(line, " xid %ld %d %llu", &event->serial, &event->gpu, &event->code) == 3) {
        event_count++;
        return;
    }
    if (rule_count == RULES_AT_MOST)
        return;
    struct rule *rule = &rules[rule_count];
    char who[16], rest[160];
    memset(rule, 0, sizeof *rule);
    rule->at = at;
    if (sscanf(line, " sys %47s %159[^\n]", rule->key, rest) == 2)
        rule->gpu = SYSTEM;
    else if (sscanf(line, " gpu %15s %47s %159[^\n]", who, rule->key, rest) == 3)
        rule->gpu = who[0] == '*' ? EVERY : atoi(who);
    else
        return;
    if (sscanf(rest, "error %lf", &rule->number) == 1)
        rule->kind = ERROR;
    else if (strncmp(rest, "block", 5) == 0)
        rule->kind = BLOCK;
    else if (strncmp(rest, "crash", 5) == 0)
        rule->kind = CRASH;
    else if (sscanf(rest, "wave %lf %lf %lf", &rule->number, &rule->high, &rule->period) == 3)
        rule->kind = WAVE;
    else {
        rule->kind = NUMBER;
        rule->number = atof(rest);
        snprintf(rule->text, sizeof rule->text, "%.111s", rest);
    }
    rule_count++;
}

static void refresh(void)
{
    const char *path = getenv("DDWATCH_NVML_SCENARIO");
    struct stat state;
    if (path == NULL || stat(path, &state) != 0)
        return;
    if (state.st_mtim.tv_sec == changed.tv_sec && state.st_mtim.tv_nsec == changed.tv_nsec && state.st_ino == inode)
        return;
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return;
    changed = state.st_mtim;
    inode = state.st_ino;
    rule_count = event_count = 0;
    char line[512];
    while (fgets(line, sizeof line, file) != NULL)
        take(line);
    fclose(file);
}

/* The rule that answers, or an error. Blocks or crashes when the scenario says so. */
static int ask(int gpu, const char *key, struct rule *answer)
{
    pthread_mutex_lock(&lock);
    refresh();
    double now = elapsed();
    struct rule found;
    int known = 0;
    for (int i = rule_count - 1; i >= 0 && !known; i--) {
        struct rule *rule = &rules[i];
        int mine = gpu == SYSTEM ? rule->gpu == SYSTEM : rule->gpu == gpu || rule->gpu == EVERY;
        int fits = strcmp(rule->key, key) == 0 || (rule->key[0] == '*' && rule->kind != NUMBER);
        if (mine && fits && rule->at <= now) {
            found = *rule;
            known = 1;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!known)
        return NOT_SUPPORTED;
    if (found.kind == ERROR)
        return (int)found.number;
    if (found.kind == CRASH) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    while (found.kind == BLOCK)
        pause();
    if (found.kind == WAVE)
        found.number += (found.high - found.number) * (0.5 - 0.5 * cos(6.283185307 * now / found.period));
    *answer = found;
    return SUCCESS;
}

static int number(int gpu, const char *key, unsigned int *out)
{
    struct rule rule;
    int code = ask(gpu, key, &rule);
    if (code == SUCCESS)
        *out = (unsigned int)(long long)rule.number;
    return code;
}

static int wide(int gpu, const char *key, unsigned long long *out)
{
    struct rule rule;
    int code = ask(gpu, key, &rule);
    if (code == SUCCESS)
        *out = (unsigned long long)(rule.text[0] ? strtoll(rule.text, NULL, 10) : (long long)rule.number);
    return code;
}

static int text(int gpu, const char *key, char *out, unsigned int size)
{
    struct rule rule;
    int code = ask(gpu, key, &rule);
    if (code == SUCCESS)
        snprintf(out, size, "%s", rule.text);
    return code;
}

#define CALL(NAME) int nvml##NAME
#define ID(DEVICE) ((DEVICE) ? (DEVICE)->index : EVERY)

CALL(InitWithFlags)(unsigned int flags)
{
    struct rule rule;
    (void)flags;
    int code = ask(SYSTEM, "init", &rule);
    return code == NOT_SUPPORTED ? SUCCESS : code;
}
CALL(Shutdown)(void) { return SUCCESS; }
const char *nvmlErrorString(int code)
{
    (void)code;
    return "stub error";
}
CALL(SystemGetDriverVersion)(char *out, unsigned int size) { return text(SYSTEM, "driver", out, size); }
CALL(DeviceGetCount_v2)(unsigned int *out) { return number(SYSTEM, "count", out); }

CALL(DeviceGetHandleByIndex_v2)(unsigned int index, struct device **out)
{
    unsigned int count = 0;
    struct rule rule;
    int code = number(SYSTEM, "count", &count);
    if (code != SUCCESS)
        return code;
    if (index >= count || index >= CARDS_AT_MOST)
        return INVALID_ARGUMENT;
    code = ask((int)index, "handle", &rule);
    if (code != SUCCESS && code != NOT_SUPPORTED)
        return code;
    *out = &devices[index];
    return SUCCESS;
}

CALL(DeviceGetUUID)(struct device *d, char *out, unsigned int size) { return text(ID(d), "uuid", out, size); }
CALL(DeviceGetName)(struct device *d, char *out, unsigned int size) { return text(ID(d), "name", out, size); }

struct pci {
    char legacy[16];
    unsigned int domain, bus, device, id, subsystem;
    char bus_id[32];
};
CALL(DeviceGetPciInfo_v3)(struct device *d, struct pci *out)
{
    memset(out, 0, sizeof *out);
    return text(ID(d), "pci", out->bus_id, sizeof out->bus_id);
}

struct rates {
    unsigned int gpu, memory;
};
CALL(DeviceGetUtilizationRates)(struct device *d, struct rates *out)
{
    int code = number(ID(d), "utilization", &out->gpu);
    if (code == SUCCESS && number(ID(d), "memory_utilization", &out->memory) != SUCCESS)
        out->memory = 0;
    return code;
}
CALL(DeviceGetClockInfo)(struct device *d, unsigned int kind, unsigned int *out)
{
    return number(ID(d), kind == 2 ? "memory_clock" : "sm_clock", out);
}
CALL(DeviceGetMaxClockInfo)(struct device *d, unsigned int kind, unsigned int *out)
{
    return number(ID(d), kind == 2 ? "memory_clock_max" : "sm_clock_max", out);
}
CALL(DeviceGetPowerUsage)(struct device *d, unsigned int *out) { return number(ID(d), "power", out); }
CALL(DeviceGetEnforcedPowerLimit)(struct device *d, unsigned int *out) { return number(ID(d), "power_limit", out); }
CALL(DeviceGetPowerManagementLimit)(struct device *d, unsigned int *out) { return number(ID(d), "power_limit", out); }

struct temperature {
    unsigned int version, sensor;
    int value;
};
CALL(DeviceGetTemperatureV)(struct device *d, struct temperature *out)
{
    return number(ID(d), "temperature", (unsigned int *)&out->value);
}
CALL(DeviceGetTemperature)(struct device *d, unsigned int sensor, unsigned int *out)
{
    (void)sensor;
    return number(ID(d), "temperature", out);
}
CALL(DeviceGetTemperatureThreshold)(struct device *d, unsigned int which, unsigned int *out)
{
    return which == 1 ? number(ID(d), "slowdown", out) : NOT_SUPPORTED;
}

struct memory {
    unsigned long long total, free, used;
};
struct memory_v2 {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};
CALL(DeviceGetMemoryInfo)(struct device *d, struct memory *out)
{
    int code = wide(ID(d), "memory_total", &out->total);
    if (code == SUCCESS)
        code = wide(ID(d), "memory_used", &out->used);
    return code;
}
CALL(DeviceGetMemoryInfo_v2)(struct device *d, struct memory_v2 *out)
{
    struct memory plain = {0, 0, 0};
    struct rule rule;
    int code = ask(ID(d), "memory_v2", &rule);
    if (code != SUCCESS && code != NOT_SUPPORTED)
        return code;
    code = nvmlDeviceGetMemoryInfo(d, &plain);
    out->total = plain.total;
    out->used = plain.used;
    return code;
}
CALL(DeviceGetPerformanceState)(struct device *d, unsigned int *out) { return number(ID(d), "pstate", out); }
CALL(DeviceGetCurrentClocksEventReasons)(struct device *d, unsigned long long *out)
{
    return wide(ID(d), "reasons", out);
}
CALL(DeviceGetCurrentClocksThrottleReasons)(struct device *d, unsigned long long *out)
{
    return wide(ID(d), "reasons", out);
}
CALL(DeviceGetCurrPcieLinkGeneration)(struct device *d, unsigned int *out) { return number(ID(d), "link_gen", out); }
CALL(DeviceGetCurrPcieLinkWidth)(struct device *d, unsigned int *out) { return number(ID(d), "link_width", out); }
CALL(DeviceGetMaxPcieLinkGeneration)(struct device *d, unsigned int *out)
{
    return number(ID(d), "link_gen_max", out);
}
CALL(DeviceGetMaxPcieLinkWidth)(struct device *d, unsigned int *out) { return number(ID(d), "link_width_max", out); }
CALL(DeviceGetPcieReplayCounter)(struct device *d, unsigned int *out) { return number(ID(d), "replays", out); }
CALL(DeviceGetPcieThroughput)(struct device *d, unsigned int which, unsigned int *out)
{
    return number(ID(d), which == 0 ? "pcie_tx" : "pcie_rx", out);
}
CALL(DeviceGetMigMode)(struct device *d, unsigned int *now, unsigned int *pending)
{
    int code = number(ID(d), "mig", now);
    *pending = *now;
    return code;
}
CALL(DeviceGetMaxMigDeviceCount)(struct device *d, unsigned int *out) { return number(ID(d), "parts_max", out); }
CALL(DeviceGetMigDeviceHandleByIndex)(struct device *d, unsigned int index, struct device **out)
{
    unsigned int count = 0;
    int code = number(ID(d), "parts", &count);
    if (code != SUCCESS)
        return code;
    if (index >= count || index >= PARTS_AT_MOST)
        return NOT_FOUND;
    *out = &parts[ID(d) * PARTS_AT_MOST + (int)index];
    return SUCCESS;
}
CALL(DeviceGetGpuInstanceId)(struct device *d, unsigned int *out) { return number(ID(d), "gpu_instance", out); }
CALL(DeviceGetComputeInstanceId)(struct device *d, unsigned int *out)
{
    return number(ID(d), "compute_instance", out);
}
CALL(DeviceGetTotalEccErrors)(struct device *d, unsigned int kind, unsigned int span, unsigned long long *out)
{
    static const char *keys[2][2] = {{"ecc_corrected", "ecc_corrected_lifetime"},
                                     {"ecc_uncorrected", "ecc_uncorrected_lifetime"}};
    return kind < 2 && span < 2 ? wide(ID(d), keys[kind][span], out) : INVALID_ARGUMENT;
}
CALL(DeviceGetRemappedRows)(struct device *d, unsigned int *corrected, unsigned int *uncorrected,
                            unsigned int *pending, unsigned int *failed)
{
    int code = number(ID(d), "remap_pending", pending);
    if (code != SUCCESS)
        return code;
    if (number(ID(d), "remap_failed", failed) != SUCCESS)
        *failed = 0;
    if (number(ID(d), "rows_remapped", uncorrected) != SUCCESS)
        *uncorrected = 0;
    *corrected = 0;
    return SUCCESS;
}

struct value {
    uint32_t field, scope;
    int64_t timestamp, latency;
    uint32_t type, code;
    unsigned long long value;
};
CALL(DeviceGetFieldValues)(struct device *d, int count, struct value *out)
{
    for (int i = 0; i < count; i++) {
        char key[24];
        snprintf(key, sizeof key, "field_%u", out[i].field);
        out[i].type = 3;
        out[i].value = 0;
        out[i].code = (uint32_t)wide(ID(d), key, &out[i].value);
    }
    struct rule rule;
    int code = ask(ID(d), "fields", &rule);
    return code == NOT_SUPPORTED ? SUCCESS : code;
}
CALL(DeviceGetNvLinkState)(struct device *d, unsigned int link, unsigned int *out)
{
    unsigned int links = 0, active = 0;
    int code = number(ID(d), "links", &links);
    if (code != SUCCESS)
        return code;
    if (link >= links)
        return INVALID_ARGUMENT;
    if (number(ID(d), "links_active", &active) != SUCCESS)
        active = links;
    *out = link < active;
    return SUCCESS;
}

struct process {
    unsigned int pid;
    unsigned long long memory;
    unsigned int instance, compute;
};
CALL(DeviceGetComputeRunningProcesses_v3)(struct device *d, unsigned int *count, struct process *out)
{
    unsigned int pid = 0;
    int code = number(ID(d), "process_pid", &pid);
    if (code != SUCCESS)
        return code;
    if (out == NULL || *count < 1) {
        *count = 1;
        return INSUFFICIENT_SIZE;
    }
    *count = 1;
    out[0].pid = pid;
    out[0].instance = out[0].compute = 0;
    return wide(ID(d), "process_memory", &out[0].memory);
}

struct event_data {
    struct device *device;
    unsigned long long type, data;
    unsigned int instance, compute;
};
CALL(EventSetCreate)(void **out)
{
    struct rule rule;
    int code = ask(SYSTEM, "events", &rule);
    *out = &events;
    return code == NOT_SUPPORTED ? SUCCESS : code;
}
CALL(EventSetFree)(void *set)
{
    (void)set;
    return SUCCESS;
}
CALL(DeviceRegisterEvents)(struct device *d, unsigned long long types, void *set)
{
    struct rule rule;
    (void)types;
    (void)set;
    int code = ask(ID(d), "events", &rule);
    return code == NOT_SUPPORTED ? SUCCESS : code;
}
CALL(EventSetWait_v2)(void *set, struct event_data *out, unsigned int milliseconds)
{
    (void)set;
    (void)milliseconds;
    pthread_mutex_lock(&lock);
    refresh();
    int code = TIMEOUT;
    for (int i = 0; i < event_count && code == TIMEOUT; i++) {
        if (events[i].serial <= delivered || events[i].gpu < 0 || events[i].gpu >= CARDS_AT_MOST)
            continue;
        delivered = events[i].serial;
        out->device = &devices[events[i].gpu];
        out->type = 8;
        out->data = events[i].code;
        out->instance = out->compute = 0xFFFFFFFF;
        code = SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return code;
}
