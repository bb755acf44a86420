#include "run/answer_stream.h"

#include "run/output.h"

#include <stdio.h>

static void show(AnswerStream *stream, const StrBuf *text, size_t end) {
    if (end > stream->shown) {
        output_text(text->text + stream->shown, end - stream->shown);
        stream->shown = end;
    }
    fflush(stdout);
}

void answer_stream_text(const Engine *engine, StrBuf *text, EngineAnswer answer) {
    bool by_string = answer.finished && answer.finish == FINISH_STOP_STRING;
    stop_strings_text(engine_stop_strings(engine), text, answer.ids, answer.count, by_string ? answer.stopped_by : -1);
}

void answer_stream_show(AnswerStream *stream, EngineAnswer answer, bool last) {
    if (answer.finished || last) {
        strbuf_clear(&stream->text);
        answer_stream_text(stream->engine, &stream->text, answer);
        show(stream, &stream->text, stream->text.length);
        return;
    }
    for (; stream->taken < answer.count; stream->taken++)
        detokenize_push(&stream->detokenizer, &stream->text, answer.ids[stream->taken]);
    // Bytes that wait for the rest of their character are held by the detokenizer already.
    size_t waiting = detokenize_held(&stream->detokenizer);
    size_t held = (size_t)answer.held > waiting ? (size_t)answer.held - waiting : 0;
    show(stream, &stream->text, held < stream->text.length ? stream->text.length - held : 0);
}

void answer_stream_close(AnswerStream *stream) {
    detokenize_close(&stream->detokenizer);
    strbuf_close(&stream->text);
}
