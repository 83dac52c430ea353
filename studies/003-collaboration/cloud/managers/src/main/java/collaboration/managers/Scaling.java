package collaboration.managers;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Decide how many servers a cloud should have. Pure: what a policy remembers is handed in and out as {@link
 * Memory}. The policies are ours; the paper does not state its own.
 */
public enum Scaling {
    /** As many as at the start. */
    STATIC {
        @Override
        int wish(Observation now, Memory memory, Settings settings) {
            return Math.max(settings.least(), now.servers());
        }
    },
    /** One more above the upper load, one fewer below the lower load; no change during the cooldown. */
    THRESHOLD {
        @Override
        int wish(Observation now, Memory memory, Settings settings) {
            if (now.timeS() - memory.changedS() < settings.cooldownS()) {
                return now.servers();
            }
            if (now.load() > settings.upper()) {
                return now.servers() + 1;
            }
            return now.load() < settings.lower() ? now.servers() - 1 : now.servers();
        }
    },
    /**
     * Kubernetes' rule: ⌈servers × load / target⌉, no change within 10 %; downwards the maximum of the last
     * minutes.
     */
    HPA {
        @Override
        int wish(Observation now, Memory memory, Settings settings) {
            int wish = wanted(now, settings);
            if (wish >= now.servers()) {
                return wish;
            }
            int most = wish;
            for (Sample sample : memory.history()) {
                if (now.timeS() - sample.timeS() <= settings.stabilisationS()) {
                    most = Math.max(most, sample.wanted());
                }
            }
            return Math.min(now.servers(), most);
        }
    },
    /**
     * The same rule on the demand when a new server would be up, by a straight line through the last samples.
     */
    PREDICTIVE {
        @Override
        int wish(Observation now, Memory memory, Settings settings) {
            double ahead = Math.max(demandAhead(memory.history(), settings), now.demand());
            int wish = (int) Math.ceil(ahead / settings.target() - 1e-9);
            return now.demand() > settings.lower() * now.servers() ? Math.max(wish, now.servers()) : wish;
        }
    };

    /**
     * Describe the cloud now: `active` servers serve, `booting` ones will; `load` is the mean share of
     * capacity used.
     */
    public record Observation(double timeS, int active, int booting, double load) {
        public int servers() {
            return active + booting;
        }

        /** Return the load in whole servers. */
        public double demand() {
            return load * active;
        }
    }

    /** Hold one observation that a policy remembers. */
    public record Sample(double timeS, double demand, int wanted) {
    }

    /** Hold what is passed from one decision to the next; the buckets hold seconds. */
    public record Memory(double changedS, double up, double down, List<Sample> history) {
        public static final Memory NONE = new Memory(Double.NEGATIVE_INFINITY, 0, 0, List.of());
    }

    /** Set the bounds and times of all policies. A bucket of 0 s acts at once. */
    public record Settings(int least, int most, double target, double upper, double lower, double cooldownS,
                           double stabilisationS, double aheadS, double upBucketS, double downBucketS) {
        /** Return default settings for a cloud of `least` to `most` servers. */
        public static Settings usual(int least, int most) {
            return new Settings(least, most, 0.6, 0.8, 0.4, 120, 300, 80, 30, 180);
        }

        /** Return the same for a cloud of no more servers than are known. */
        public Settings within(int known) {
            return new Settings(least, Math.max(least, Math.min(most, known)), target, upper, lower, cooldownS,
                stabilisationS, aheadS, upBucketS, downBucketS);
        }
    }

    /** Hold how many servers there should be now, and why. */
    public record Step(int servers, Memory memory, String reason) {
    }

    private static final int SAMPLES = 40;

    abstract int wish(Observation now, Memory memory, Settings settings);

    /** Find a policy by name. Throws IllegalArgumentException that lists the names. */
    public static Scaling of(String word) {
        for (Scaling policy : values()) {
            if (policy.name().toLowerCase(Locale.ROOT).equals(word)) {
                return policy;
            }
        }
        throw new IllegalArgumentException("a scaling policy is static, threshold, hpa or predictive, not "
            + word);
    }

    /**
     * Decide. While a policy wants a change its leaky bucket fills, otherwise it leaks as fast; only a full
     * bucket changes the cloud.
     */
    public Step decide(Observation now, Memory before, Settings settings) {
        List<Sample> history = new ArrayList<>(before.history());
        double sinceS = history.isEmpty() ? 0 : now.timeS() - history.get(history.size() - 1).timeS();
        history.add(new Sample(now.timeS(), now.demand(), wanted(now, settings)));
        if (history.size() > SAMPLES) {
            history.remove(0);
        }
        Memory memory = new Memory(before.changedS(), before.up(), before.down(), List.copyOf(history));
        int wish = bounded(wish(now, memory, settings), settings);
        double up = filled(before.up(), wish > now.servers(), sinceS, settings.upBucketS());
        double down = filled(before.down(), wish < now.servers(), sinceS, settings.downBucketS());
        boolean acts = wish > now.servers() && up >= settings.upBucketS()
            || wish < now.servers() && down >= settings.downBucketS();
        if (!acts) {
            String reason = wish == now.servers() ? "enough" : "waits for its bucket to fill";
            return new Step(now.servers(), new Memory(before.changedS(), up, down, memory.history()), reason);
        }
        String reason = String.format(Locale.ROOT, "load %.2f of %d servers", now.load(), now.active());
        return new Step(wish, new Memory(now.timeS(), 0, 0, memory.history()), reason);
    }

    private static double filled(double bucket, boolean wished, double sinceS, double size) {
        return wished ? Math.min(size, bucket + sinceS) : Math.max(0, bucket - sinceS);
    }

    private static int bounded(int servers, Settings settings) {
        return Math.max(settings.least(), Math.min(settings.most(), servers));
    }

    /** Apply Kubernetes' rule. */
    static int wanted(Observation now, Settings settings) {
        double ratio = now.load() / settings.target();
        if (Math.abs(ratio - 1) <= 0.1) {
            return now.servers();
        }
        return (int) Math.ceil(now.active() * ratio - 1e-9);
    }

    /** Extend a line through the last ten samples, by least squares, to `aheadS` after the last. */
    static double demandAhead(List<Sample> history, Settings settings) {
        List<Sample> last = history.subList(Math.max(0, history.size() - 10), history.size());
        double meanS = last.stream().mapToDouble(Sample::timeS).average().orElse(0);
        double mean = last.stream().mapToDouble(Sample::demand).average().orElse(0);
        double spread = 0;
        double common = 0;
        for (Sample sample : last) {
            spread += (sample.timeS() - meanS) * (sample.timeS() - meanS);
            common += (sample.timeS() - meanS) * (sample.demand() - mean);
        }
        double slope = spread > 0 ? common / spread : 0;
        double atS = last.isEmpty() ? 0 : last.get(last.size() - 1).timeS() + settings.aheadS();
        return Math.max(0, mean + slope * (atS - meanS));
    }
}
