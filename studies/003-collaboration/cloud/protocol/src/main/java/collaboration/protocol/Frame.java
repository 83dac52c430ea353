package collaboration.protocol;

import collaboration.protocol.Misuse.Code;
import io.vertx.core.buffer.Buffer;
import java.nio.charset.StandardCharsets;

/**
 * Read and write the binary head of a frame: version (1 byte), length of the sender's name (1 byte), number
 * (4 bytes), stamp in microseconds (8 bytes), the name, then the payload. A client leaves the name out: the
 * server puts it in.
 */
public record Frame(String sender, int number, long stampUs, Buffer payload) {
    public static final int HEAD_BYTES = 14;

    /** Encode it. */
    public Buffer toBuffer() {
        byte[] name = sender.getBytes(StandardCharsets.UTF_8);
        return Buffer.buffer(HEAD_BYTES + name.length + payload.length())
            .appendByte((byte) Limits.VERSION).appendByte((byte) name.length)
            .appendInt(number).appendLong(stampUs).appendBytes(name).appendBuffer(payload);
    }

    /** Decode one. Throws Misuse where the head is not one of this version. */
    public static Frame read(Buffer buffer) throws Misuse {
        if (buffer.length() <= HEAD_BYTES) {
            throw new Misuse(Code.FRAME, "a frame is a head of " + HEAD_BYTES + " bytes and a payload");
        }
        if (buffer.getByte(0) != Limits.VERSION) {
            throw new Misuse(Code.FRAME, "the head's version is not " + Limits.VERSION);
        }
        int end = HEAD_BYTES + (buffer.getByte(1) & 0xff);
        if (buffer.length() <= end) {
            throw new Misuse(Code.FRAME, "the head is longer than the frame");
        }
        String sender = buffer.getString(HEAD_BYTES, end, "UTF-8");
        return new Frame(sender, buffer.getInt(2), buffer.getLong(6), buffer.slice(end, buffer.length()));
    }
}
