package collaboration.simulation;

import collaboration.managers.Scaling;
import java.util.ArrayList;
import java.util.List;

/** Hold which servers are awake; the scaling policy wakes and drains them. Both models share it. */
final class Fleet {
    private final Scenario scenario;
    /** When each server that boots will serve, by its number. */
    private final List<double[]> booting = new ArrayList<>();
    private final List<Integer> active = new ArrayList<>();
    private final List<Integer> standby = new ArrayList<>();
    private Scaling.Memory memory = Scaling.Memory.NONE;
    private double hours;

    Fleet(Scenario scenario) {
        this.scenario = scenario;
        for (int i = 0; i < scenario.mostServers(); i++) {
            (i < scenario.startServers() ? active : standby).add(i);
        }
    }

    /** Let a period pass; servers whose boot ends in it serve from its end on. */
    void pass(double endS) {
        hours += (active.size() + booting.size()) * scenario.periodS() / 3_600;
        booting.removeIf(one -> {
            if (one[1] <= endS + 1e-9) {
                active.add((int) one[0]);
                return true;
            }
            return false;
        });
    }

    /** Decide at a time by a load; returns the servers that are drained, the last woken first. */
    List<Integer> decide(double timeS, double load) {
        Scaling.Observation seen = new Scaling.Observation(timeS, active.size(), booting.size(), load);
        Scaling.Step step = scenario.policy().decide(seen, memory, scenario.settings());
        memory = step.memory();
        List<Integer> drained = new ArrayList<>();
        int change = step.servers() - seen.servers();
        for (; change > 0 && !standby.isEmpty(); change--) {
            booting.add(new double[] {standby.remove(standby.size() - 1), timeS + scenario.bootS()});
        }
        for (; change < 0 && active.size() > 1; change++) {
            int server = active.remove(active.size() - 1);
            standby.add(server);
            drained.add(server);
        }
        return drained;
    }

    List<Integer> active() {
        return active;
    }

    int booting() {
        return booting.size();
    }

    double hours() {
        return hours;
    }
}
