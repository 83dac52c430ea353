package collaboration.server;

import java.util.Locale;

/** Count times in Prometheus buckets, and estimate the median of the times since the last call. */
final class Histogram {
    private static final double[] UP_TO_MS = {0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150,
        200, 300, 500, 700, 1_000, 2_000, 5_000};
    private final long[] counts = new long[UP_TO_MS.length + 1];
    private final long[] seen = new long[UP_TO_MS.length + 1];
    private double sumMs;

    void add(double ms) {
        int low = 0;
        while (low < UP_TO_MS.length && ms > UP_TO_MS[low]) {
            low++;
        }
        counts[low]++;
        sumMs += ms;
    }

    /** Return the median in ms since the last call, interpolated within its bucket; 0: there were none. */
    double medianSinceMs() {
        long[] now = new long[counts.length];
        long total = 0;
        for (int i = 0; i < counts.length; i++) {
            now[i] = counts[i] - seen[i];
            seen[i] = counts[i];
            total += now[i];
        }
        long below = 0;
        for (int i = 0; i < now.length; i++) {
            if (total > 0 && below + now[i] >= total / 2.0) {
                double from = i == 0 ? 0 : UP_TO_MS[i - 1];
                double to = i < UP_TO_MS.length ? UP_TO_MS[i] : from;
                return from + (to - from) * (total / 2.0 - below) / now[i];
            }
            below += now[i];
        }
        return 0;
    }

    void print(StringBuilder page, String name, String help) {
        page.append("# HELP ").append(name).append(' ').append(help).append("\n# TYPE ").append(name)
            .append(" histogram\n");
        long total = 0;
        for (int i = 0; i < UP_TO_MS.length; i++) {
            total += counts[i];
            page.append(String.format(Locale.ROOT, "%s_bucket{le=\"%s\"} %d%n", name, UP_TO_MS[i] / 1e3,
                total));
        }
        total += counts[UP_TO_MS.length];
        page.append(String.format(Locale.ROOT, "%s_bucket{le=\"+Inf\"} %d%n%s_sum %.6f%n%s_count %d%n", name,
            total, name, sumMs / 1e3, name, total));
    }
}
