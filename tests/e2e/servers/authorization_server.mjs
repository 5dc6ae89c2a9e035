// A real authorization server, oidc-provider, whose people log in with any name, and agree to everything.
import { generateKeyPairSync } from "node:crypto";
import { Provider } from "oidc-provider";

const given = JSON.parse(process.argv[2]);
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const key = { ...privateKey.export({ format: "jwk" }), kid: "tests", alg: "ES256", use: "sig" };

const provider = new Provider(given.issuer, {
  jwks: { keys: [key] },
  scopes: ["openid", "offline_access", ...given.scopes],
  clients: [
    {
      client_id: "gateway",
      client_secret: "the-gateways-own-secret",
      grant_types: [],
      response_types: [],
      redirect_uris: [],
    },
  ],
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  enabledJWA: { idTokenSigningAlgValues: ["ES256"] },
  cookies: { keys: ["only for tests"] },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  fetch: async (url, options) => {
    // The clients' own metadata documents are where no certificate could be had for.
    const document = given.documents[String(url)];
    if (!document) throw new Error(`nothing at ${url}`);
    return Response.json(document, { headers: { "cache-control": "max-age=60" } });
  },
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    revocation: { enabled: true, allowedPolicy: () => true },
    clientIdMetadataDocument: { enabled: true, ack: "draft-02" },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: given.scopes.join(" "),
        audience: resource,
        accessTokenFormat: given.format,
        accessTokenTTL: given.lifetime_s,
        jwt: { sign: { alg: "ES256" } },
      }),
    },
  },
  pkce: { required: () => true },
});
provider.on("server_error", (ctx, error) => console.error(error));
provider.listen(given.port, "127.0.0.1", () => console.log("listening"));
