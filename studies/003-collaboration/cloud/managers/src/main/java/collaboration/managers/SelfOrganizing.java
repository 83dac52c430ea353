package collaboration.managers;

import java.util.List;

/** Decide, for one server, whether it admits clients, and how many it hands over. */
public final class SelfOrganizing {
    /** Hold what a server measured in its last period. */
    public record Measured(int clients, double outgoing, double latencyMs, double cpuShare,
                           double receivedBytesPerS, double sentBytesPerS) {
    }

    /** State the limits of a server, `bytesPerS` each way; above `limit × release` it hands clients over. */
    public record Limits(double latencyMs, double cpuShare, double bytesPerS, double release) {
        /**
         * 50 ms, 90 % of its CPU, 90 % of 10 Mbit/s each way; 20 % above any of them it hands clients over.
         */
        public static final Limits USUAL = new Limits(50, 0.9, 0.9 * 10e6 / 8, 1.2);
    }

    /** Hold the decision: `predictedMs` is for one more client. */
    public record Decision(boolean admit, int handOver, double predictedMs, String reason) {
    }

    private SelfOrganizing() {
    }

    /** Decide. Clients are handed over only if one of the `others` admits them. */
    public static Decision decide(Measured now, Limits limits, LatencyModel model,
                                  List<Balancing.Server> others) {
        double perClient = now.clients() > 0 ? now.outgoing() / now.clients() : 1;
        double predicted = model.latencyMs(now.outgoing() + perClient, now.clients() + 1);
        double pressure = 0;
        String reason = "within its limits";
        for (Pressure one : List.of(
            new Pressure(predicted / limits.latencyMs(), "predicted latency"),
            new Pressure(now.latencyMs() / limits.latencyMs(), "measured latency"),
            new Pressure(now.cpuShare() / limits.cpuShare(), "CPU"),
            new Pressure(now.receivedBytesPerS() / limits.bytesPerS(), "bandwidth received"),
            new Pressure(now.sentBytesPerS() / limits.bytesPerS(), "bandwidth sent"))) {
            if (one.of() > pressure) {
                pressure = one.of();
                reason = one.of() > 1 ? one.what() + " over its limit" : reason;
            }
        }
        boolean elsewhere = others.stream().anyMatch(Balancing.Server::admits);
        int over = pressure > limits.release() && elsewhere
            ? (int) Math.min(now.clients(), Math.ceil(now.clients() * (1 - 1 / pressure))) : 0;
        return new Decision(pressure <= 1, over, predicted, reason);
    }

    private record Pressure(double of, String what) {
    }
}
