package collaboration.server;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.SecureRandom;
import javax.crypto.Cipher;
import javax.crypto.SecretKey;
import javax.crypto.SecretKeyFactory;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.PBEKeySpec;
import javax.crypto.spec.SecretKeySpec;

/** Encrypt and authenticate with the group's secret (AES-GCM): nonce (12 bytes), text, tag (16 bytes). */
public final class Seal {
    public static final int EXTRA_BYTES = 28;
    private static final int NONCE_BYTES = 12;
    private static final int LEAST_SECRET = 8;
    private final SecretKey key;
    private final SecureRandom random = new SecureRandom();
    private final ThreadLocal<Cipher> ciphers = ThreadLocal.withInitial(Seal::cipher);

    public Seal(String secret) {
        if (secret == null || secret.length() < LEAST_SECRET) {
            throw new IllegalArgumentException(
                "the group's secret, COLLABORATION_SECRET, needs 8 characters or more");
        }
        try {
            byte[] salt = "collaboration group".getBytes(StandardCharsets.US_ASCII);
            byte[] raw = SecretKeyFactory.getInstance("PBKDF2WithHmacSHA256")
                .generateSecret(new PBEKeySpec(secret.toCharArray(), salt, 10_000, 128)).getEncoded();
            key = new SecretKeySpec(raw, "AES");
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Cipher cipher() {
        try {
            return Cipher.getInstance("AES/GCM/NoPadding");
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Seal bytes. */
    public byte[] seal(byte[] bytes, int offset, int length) {
        try {
            byte[] nonce = new byte[NONCE_BYTES];
            random.nextBytes(nonce);
            Cipher cipher = ciphers.get();
            cipher.init(Cipher.ENCRYPT_MODE, key, new GCMParameterSpec(128, nonce));
            ByteBuffer sealed = ByteBuffer.allocate(length + EXTRA_BYTES).put(nonce);
            cipher.doFinal(ByteBuffer.wrap(bytes, offset, length), sealed);
            return sealed.array();
        } catch (GeneralSecurityException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Open what was sealed; null where it was not, or not with this secret. */
    public byte[] open(byte[] sealed, int offset, int length) {
        if (length < EXTRA_BYTES) {
            return null;
        }
        try {
            Cipher cipher = ciphers.get();
            cipher.init(Cipher.DECRYPT_MODE, key, new GCMParameterSpec(128, sealed, offset, NONCE_BYTES));
            return cipher.doFinal(sealed, offset + NONCE_BYTES, length - NONCE_BYTES);
        } catch (GeneralSecurityException e) {
            return null;
        }
    }
}
