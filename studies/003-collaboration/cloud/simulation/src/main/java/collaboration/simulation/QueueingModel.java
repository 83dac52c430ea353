package collaboration.simulation;

import java.util.ArrayList;
import java.util.List;

/**
 * Compute a scenario without simulating it: all servers carry the same load, and each is an M/G/1 queue
 * (Pollaczek and Khinchine) fed by the frames of its outgoing streams. The policies decide as in the
 * simulation.
 */
public final class QueueingModel {
    private static final double FRAMES_PER_S = 25;
    /**
     * Squared coefficient of variation of the service times: that of the frames' sizes in frame-sizes.csv.
     */
    private static final double VARIATION = 0.083;
    private final Scenario scenario;

    public QueueingModel(Scenario scenario) {
        this.scenario = scenario;
    }

    /** Compute it; one row a period. */
    public List<Row> run() {
        Fleet fleet = new Fleet(scenario);
        List<Row> rows = new ArrayList<>();
        for (double timeS = 0; timeS < scenario.endS() - 1e-9; timeS += scenario.periodS()) {
            double endS = timeS + scenario.periodS();
            double sessions = Math.rint(scenario.users(timeS) / scenario.sessionSize());
            fleet.pass(endS);
            int active = fleet.active().size();
            double outgoing = sessions * scenario.outgoingPerSession() / active;
            double users = sessions * scenario.sessionSize() / active;
            double load = outgoing / scenario.capacity();
            double cpu = utilisation(outgoing, users);
            double latency = latencyMs(outgoing, users);
            rows.add(new Row(endS, (int) (sessions * scenario.sessionSize()), (int) sessions,
                (int) (sessions * scenario.outgoingPerSession()), active, fleet.booting(), load,
                Math.min(1, cpu), latency, scenario.law().latencyMs(outgoing, users) > scenario.limitMs() ? 1
                : 0, fleet.hours()));
            fleet.decide(endS, load);
        }
        return rows;
    }

    double utilisation(double outgoing, double users) {
        return outgoing * scenario.cpuPerStream() + users * scenario.cpuPerUser();
    }

    /**
     * Return the time in ms of one frame in the server, service and waiting; infinite once it is saturated.
     */
    double latencyMs(double outgoing, double users) {
        double busy = utilisation(outgoing, users);
        double serviceMs = scenario.cpuPerStream() / FRAMES_PER_S * 1e3;
        return busy >= 1 ? Double.POSITIVE_INFINITY : serviceMs
            + busy * serviceMs * (1 + VARIATION) / (2 * (1 - busy));
    }
}
