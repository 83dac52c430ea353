package collaboration.simulation;

import java.util.List;
import java.util.Locale;

/** State one period of a simulation; times are at its end. */
public record Row(double timeS, int users, int sessions, int outgoing, int active, int booting, double load,
                  double cpu, double latencyMs, double lateShare, double serverHours) {
    public static final String HEAD =
        "time_s,users,sessions,outgoing_streams,active,booting,load,cpu,latency_ms,late_share,server_hours";

    /** Return it as a line of CSV. */
    public String line() {
        return String.format(Locale.ROOT, "%.0f,%d,%d,%d,%d,%d,%.4f,%.4f,%.3f,%.5f,%.4f", timeS, users,
            sessions, outgoing, active, booting, load, cpu, latencyMs, lateShare, serverHours);
    }

    /**
     * Summarise a run: late share of user-time; an oscillation is a change in the opposite direction to the
     * last one.
     */
    public record Summary(double serverHours, double lateShare, int oscillations, int most) {
        /** Sum rows up. */
        public static Summary of(List<Row> rows) {
            double late = 0;
            double users = 0;
            int oscillations = 0;
            int direction = 0;
            int most = 0;
            for (int i = 0; i < rows.size(); i++) {
                Row row = rows.get(i);
                late += row.lateShare() * row.users();
                users += row.users();
                most = Math.max(most, row.active());
                int before = i == 0 ? row.active() + row.booting() : rows.get(i - 1).active()
                    + rows.get(i - 1).booting();
                int way = Integer.signum(row.active() + row.booting() - before);
                oscillations += way != 0 && direction != 0 && way != direction ? 1 : 0;
                direction = way != 0 ? way : direction;
            }
            return new Summary(rows.isEmpty() ? 0 : rows.get(rows.size() - 1).serverHours(), users > 0
                ? late / users : 0, oscillations, most);
        }
    }
}
