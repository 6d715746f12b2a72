/* Messages between two hosts by MPI alone (links.sh): pingpong TRIPS BYTES. Process 0 sends BYTES
 * to process 1 and gets them back, TRIPS times, each checked; prints both hosts, whether the bytes
 * are right, and the milliseconds of the fastest trip and of all. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Byte i of trip `trip`. */
static unsigned char pingpong_byte(int trip, int i) { return (unsigned char)(trip * 7 + i * 13 + i / 251); }

static int pingpong_is_right(const unsigned char *bytes, int trip, int count) {
    for (int i = 0; i < count; i++)
        if (bytes[i] != pingpong_byte(trip, i)) return 0;
    return 1;
}

/* Process 0's part: how many trips came back whole. */
static int pingpong_lead(int trips, int count, unsigned char *bytes, double *fastest) {
    int right = 0;
    for (int trip = 0; trip < trips; trip++) {
        for (int i = 0; i < count; i++) bytes[i] = pingpong_byte(trip, i);
        const double begun = MPI_Wtime();
        MPI_Send(bytes, count, MPI_BYTE, 1, trip, MPI_COMM_WORLD);
        memset(bytes, 0, (size_t)count);
        MPI_Recv(bytes, count, MPI_BYTE, 1, trip, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        const double took = MPI_Wtime() - begun;
        if (!trip || took < *fastest) *fastest = took;
        right += pingpong_is_right(bytes, trip, count);
    }
    return right;
}

int main(int argument_count, char **arguments) {
    int rank, size, length = 0, right = 0;
    char host[MPI_MAX_PROCESSOR_NAME] = "", other[MPI_MAX_PROCESSOR_NAME] = "";
    double fastest = 0;
    MPI_Init(&argument_count, &arguments);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int trips = argument_count == 3 ? atoi(arguments[1]) : 0, count = argument_count == 3 ? atoi(arguments[2]) : 0;
    unsigned char *bytes = malloc((size_t)count + 1);
    if (size != 2 || trips < 1 || count < 1 || !bytes) {
        fprintf(stderr, "pingpong: expected TRIPS BYTES and 2 processes, received %d processes\n", size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Get_processor_name(host, &length);
    MPI_Sendrecv(host, sizeof host, MPI_CHAR, 1 - rank, 0, other, sizeof other, MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double begun = MPI_Wtime();
    if (rank == 0) {
        right = pingpong_lead(trips, count, bytes, &fastest);
        printf("hosts %s %s right %d fastest %.0f all %.0f\n", host, other, right, fastest * 1e3, (MPI_Wtime() - begun) * 1e3);
    } else {
        for (int trip = 0; trip < trips; trip++) {
            MPI_Recv(bytes, count, MPI_BYTE, 0, trip, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(bytes, count, MPI_BYTE, 0, trip, MPI_COMM_WORLD);
        }
    }
    free(bytes);
    MPI_Finalize();
    return rank == 0 && right != trips;
}
