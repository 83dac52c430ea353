package collaboration.protocol;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Objects;

/**
 * Give the sizes in bytes of ten seconds of video, 64×64 at 25 frames/s (frame-sizes.csv; its origin is in
 * the README).
 */
public final class FrameSizes {
    public static final int FRAMES_PER_S = 25;
    private static final int[] BYTES = load();

    private FrameSizes() {
    }

    /** Return the size of a frame; after the last the table repeats. */
    public static int of(int number) {
        return BYTES[Math.floorMod(number, BYTES.length)];
    }

    /** Return the number of frames in the table. */
    public static int count() {
        return BYTES.length;
    }

    private static int[] load() {
        var stream = FrameSizes.class.getResourceAsStream("/collaboration/frame-sizes.csv");
        Objects.requireNonNull(stream);
        try (var reader = new BufferedReader(new InputStreamReader(stream, StandardCharsets.US_ASCII))) {
            return reader.lines().skip(1).mapToInt(line -> Integer.parseInt(line.split(",")[1])).toArray();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
