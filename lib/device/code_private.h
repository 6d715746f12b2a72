/* What code.c, code_family.c and code_batch.c share. */
#ifndef MST_CODE_PRIVATE_H
#define MST_CODE_PRIVATE_H

#include "code_impl.h"

/* ---- code_family.c ---- */

/* The program of a family. It refers to the headers. */
mst_code_program mst_code_family_program(int32_t family, const mst_code_headers *headers);

/* Hashes the text and its length, so that different lists of texts never give the same bytes. */
void mst_code_hash_text(mst_sha256 *hash, const char *text);
void mst_code_hash_sources(mst_sha256 *hash, const mst_code_source *sources, int32_t count);

/* ---- code.c ---- */

/* *key = the name under which the cache keeps the program's image. */
muster_status mst_code_key_of(const mst_code_target *target, const mst_code_program *program, mst_code_key *key);

/* mst_code_build that also keeps the image in memory until the last mst_code_let_go. sentence: what
 * to announce if the program is compiled, or NULL. */
muster_status mst_code_build_kept(const mst_code_target *target, const mst_code_program *program, const char *sentence,
                                  mst_code_image *image);
/* Finds an image in memory or in the cache. One that is in neither is no failure: the image then
 * stays empty. */
muster_status mst_code_find(const mst_code_target *target, const mst_code_program *program, mst_code_image *image);

#endif
