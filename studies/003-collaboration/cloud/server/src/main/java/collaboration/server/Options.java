package collaboration.server;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Read a program's options: `--name value` each. */
public final class Options {
    private final Map<String, String> given = new LinkedHashMap<>();

    /** Read them. Throws IllegalArgumentException that names those there are. */
    public Options(String[] words, Set<String> known) {
        for (int i = 0; i < words.length; i += 2) {
            String name = words[i].startsWith("--") ? words[i].substring(2) : "";
            if (!known.contains(name)) {
                throw new IllegalArgumentException("there is no option " + words[i] + "; there are --"
                    + String.join(", --", known.stream().sorted().toList()));
            }
            if (i + 1 == words.length) {
                throw new IllegalArgumentException(words[i] + " needs a value");
            }
            given.put(name, words[i + 1]);
        }
    }

    public String text(String name, String usual) {
        String value = given.getOrDefault(name, usual);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    public double number(String name, double usual) {
        String value = given.get(name);
        try {
            return value == null ? usual : Double.parseDouble(value);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException("--" + name + " is a number, not " + value, e);
        }
    }

    public int port(String name, int usual) {
        double value = number(name, usual);
        if (value < 1 || value > 65_535 || value != Math.rint(value)) {
            throw new IllegalArgumentException("--" + name + " is a port, 1 to 65535");
        }
        return (int) value;
    }

    /** Read addresses by commas, `host:port` each. */
    public List<InetSocketAddress> addresses(String name) {
        List<InetSocketAddress> found = new ArrayList<>();
        for (String word : text(name, "").split(",")) {
            int colon = word.lastIndexOf(':');
            if (colon < 1) {
                throw new IllegalArgumentException("--" + name + " is HOST:PORT, more of them by commas, not "
                    + word);
            }
            try {
                found.add(new InetSocketAddress(word.substring(0, colon),
                    Integer.parseInt(word.substring(colon + 1))));
            } catch (IllegalArgumentException e) {
                throw new IllegalArgumentException("--" + name + " names no port in " + word, e);
            }
        }
        return found;
    }
}
