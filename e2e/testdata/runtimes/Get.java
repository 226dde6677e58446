// A tool written in Java: one GET by java.net.http, or with a second argument by HttpURLConnection.
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Get {
    public static void main(String[] args) throws Exception {
        URI target = URI.create(args[0]);
        if (args.length > 1) {
            try (InputStream in = target.toURL().openStream()) {
                System.out.println(new String(in.readAllBytes()));
            }
            return;
        }
        HttpRequest request = HttpRequest.newBuilder(target).build();
        System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
