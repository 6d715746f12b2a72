/* Steps in traces, and the time that each took. Neither costs anything unless it is asked for. */
#include "clock_impl.h"
#include "observe_private.h"
#include "recorder_impl.h"
#include "runtime_impl.h"
#include "worker_impl.h"

static const char *title_of(const void *program, int32_t at) { return mst_node_title(((const mst_graph_program *)program)->order[at]); }

muster_status mst_graph_program_name_steps(mst_graph_program *program) {
    muster_runtime *runtime = program->graph->runtime;
    if (!runtime->trace_path && !runtime->nvtx) return MUSTER_OK;
    MUSTER_TRY(mst_step_names_make(runtime, "muster_graph_compile", program->count, title_of, program, &program->step_names));
    program->titles = program->step_names->names;
    program->observed = true;
    return MUSTER_OK;
}

mst_step_watch mst_step_begin(muster_worker *worker, const mst_graph_program *program, const mst_graph_program_step *step, int32_t index) {
    mst_step_watch watch = {0};
    if (program->titles) {
        const char *title = step->copy_from >= 0 ? "copy"
                            : step->loop         ? "micro-batches"
                                                 : program->titles[program->position[step->node->id]];
        const bool wanted = step->out_count && step->out[0]->dtype != MUSTER_DTYPE_NONE;
        watch.event =
            mst_record_begin(&worker->recorder, MST_EVENT_STEP, title, (uint64_t)index, wanted ? muster_tensor_bytes(*step->out[0]) : 0);
    }
    if (program->timed) watch.start = mst_ticks();
    return watch;
}

muster_status mst_step_end(muster_worker *worker, const mst_graph_program *program, mst_graph_program_step *step, mst_step_watch watch) {
    muster_status status = MUSTER_OK;
    if (program->timed) {
        status = mst_worker_drain(worker); /* a device that computes later has ended the step */
        step->ticks = mst_ticks() - watch.start;
    }
    if (program->titles) mst_record_end(&worker->recorder, watch.event);
    return status;
}
