#include "bench.h"

#include <math.h>

static FILE *file;
static int32_t row_count;

static void string(const char *text) {
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', file);
        if ((unsigned char)*text < 0x20)
            fprintf(file, "\\u%04x", *text);
        else
            fputc(*text, file);
    }
    fputc('"', file);
}

static void number(const char *name, double value) {
    if (isfinite(value))
        fprintf(file, ", \"%s\": %.9g", name, value);
    else
        fprintf(file, ", \"%s\": null", name);
}

static void ratio(const char *name, const double values[3]) {
    if (isnan(values[0]))
        fprintf(file, ", \"%s\": null", name);
    else
        fprintf(file, ", \"%s\": {\"median\": %.9g, \"p10\": %.9g, \"p90\": %.9g}", name, values[0], values[1], values[2]);
}

bool bench_json_open(const char *path, const char *case_name) {
    if (!path) return true;
    file = fopen(path, "w");
    if (!file) {
        perror(path);
        return false;
    }
    fprintf(file, "{\"case\": ");
    string(case_name);
    fprintf(file, ", \"machine\": ");
    string(bench_machine());
    fprintf(file, ", \"unit\": \"ns\", \"rows\": [");
    row_count = 0;
    return true;
}

static void json_contender(const bench_row *row, const bench_contender *contender) {
    static const char *const kinds[] = {"limit", "muster", "muster", "peer"};
    fprintf(file, "\n    {\"name\": ");
    string(contender->name);
    fprintf(file, ", \"kind\": \"%s\", \"measured\": %s, \"wrong\": %lld", kinds[contender->kind], contender->dropped ? "false" : "true",
            (long long)contender->wrong);
    if (!contender->dropped) {
        number("median_of_rounds", contender->typical);
        number("p50", contender->p50);
        number("p95", contender->p95);
        number("p99", contender->p99);
        number("min", contender->least);
        if (row->items > 0) number("items_per_second", row->items / contender->p50 * 1e9);
        ratio("over_limit", contender->limit_ratio);
        ratio("muster_over_this", contender->muster_ratio);
        fprintf(file, ", \"round_medians\": [");
        for (int32_t i = 0; i < row->round_count; i++) fprintf(file, "%s%.6g", i ? ", " : "", contender->rounds[i]);
        fprintf(file, "]");
    }
    fprintf(file, "}");
}

static void json_target(const bench_row *row, const bench_target *target) {
    static const char *const measures[] = {"median ratio", "p99 ratio", "median difference, ns", "median, ns", "speedup"};
    double value = NAN;
    const char *reference = target->reference;
    bool found = bench_target_value(row, target, &value, &reference);
    fprintf(file, "\n    {\"measure\": \"%s\", \"reference\": ", measures[target->measure]);
    string(reference);
    number("bound", target->bound);
    number("value", value);
    fprintf(file, ", \"met\": %s}", !found ? "null" : bench_target_met(target, value) ? "true" : "false");
}

void bench_json_row(const bench_row *row) {
    if (!file) return;
    fprintf(file, "%s\n  {\"name\": ", row_count++ ? "," : "");
    string(row->name);
    fprintf(file, ", \"rounds\": %d, \"calls\": %d, \"pause_ns\": %lld, \"items\": %.9g%s, \"contenders\": [", row->round_count,
            row->block.calls, (long long)row->block.pause_ns, row->items, row->json ? row->json : "");
    for (int32_t i = 0; i < row->count; i++) {
        if (i) fprintf(file, ",");
        json_contender(row, &row->contenders[i]);
    }
    fprintf(file, "],\n   \"limit_at_fault\": %s, \"targets\": [", bench_limit_fault(row) ? "true" : "false");
    for (int32_t i = 0; i < row->target_count; i++) {
        if (i) fprintf(file, ",");
        json_target(row, &row->targets[i]);
    }
    fprintf(file, "]}");
}

bool bench_json_close(void) {
    if (!file) return true;
    fprintf(file, "\n]}\n");
    bool ok = !ferror(file);
    ok = fclose(file) == 0 && ok;
    file = NULL;
    return ok;
}
