/* Behind a program of the user's: its kernels by name, with the types of their parameters. Included before it, used behind it by
 * MST_PROGRAM. */
template <int... I> struct mst_numbers {};
template <int N, int... I> struct mst_count : mst_count<N - 1, N - 1, I...> {};
template <int... I> struct mst_count<0, I...> { typedef mst_numbers<I...> type; };
template <typename T> struct mst_is_pointer { static constexpr int value = 0; };
template <typename T> struct mst_is_pointer<T *> { static constexpr int value = 1; };

template <typename F, F function> struct mst_kernel_of;
template <typename... A, void (*function)(A...)> struct mst_kernel_of<void (*)(A...), function> {
    struct list {
        mst_program_parameter parameters[sizeof...(A) + 1];
        unsigned int bytes;
    };
    static constexpr list make() {
        list made = {{{0, (unsigned int)sizeof(A), mst_is_pointer<A>::value}..., {0, 0, 0}}, 0};
        const unsigned int alignments[sizeof...(A) + 1] = {(unsigned int)alignof(A)..., 1};
        for (unsigned int i = 0; i < sizeof...(A); i++) {
            made.parameters[i].offset = (made.bytes + alignments[i] - 1) / alignments[i] * alignments[i];
            made.bytes = made.parameters[i].offset + made.parameters[i].bytes;
        }
        return made;
    }
    static constexpr list parameters = make();
    template <int... I> MST_UNCHECKED static void call(const unsigned char *packed, mst_numbers<I...>) {
        (void)packed;
        function(*(A *)(packed + parameters.parameters[I].offset)...);
    }
    MST_UNCHECKED static void run(const unsigned char *packed) { call(packed, typename mst_count<sizeof...(A)>::type()); }
    static constexpr mst_program_kernel entry(const char *name, int threads) {
        return {name, run, parameters.parameters, (int)sizeof...(A), parameters.bytes, threads};
    }
};
static constexpr int mst_bounds(int threads = 1024, int = 0, int = 0) { return threads; }

static mst_program_here *mst_get_here() { return &mst_here; }
