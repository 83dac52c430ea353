import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.security.MessageDigest;
import java.util.concurrent.Executors;

/** A server whose requests cost CPU in proportion to SECONDS: Planted.java SECONDS --port PORT. */
class Planted {
    public static void main(String[] words) throws Exception {
        System.setProperty("sun.net.httpserver.nodelay", "true");
        int rounds = (int) (Double.parseDouble(words[0]) * 2_000_000);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[2])), 0);
        server.createContext("/", asked -> {
            try {
                MessageDigest digest = MessageDigest.getInstance("SHA-256");
                for (int i = 0; i < rounds && !asked.getRequestURI().getPath().equals("/health"); i++)
                    digest.update((byte) i);
                asked.getResponseHeaders().set("X-Digest", String.valueOf(digest.digest()[0]));
            } catch (java.security.GeneralSecurityException error) {
                throw new java.io.IOException(error);
            }
            asked.sendResponseHeaders(200, -1);
            asked.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }
}
