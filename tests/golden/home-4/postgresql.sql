--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: hermitage_refuse(); Type: FUNCTION; Schema: public; Owner: -
--

CREATE FUNCTION public.hermitage_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN RAISE EXCEPTION '% is append-only', TG_TABLE_NAME; END $$;


SET default_tablespace = '';

SET default_table_access_method = heap;

--
-- Name: accounts; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.accounts (
    id character varying(36) NOT NULL,
    name character varying(120) NOT NULL,
    neighbours character varying(20),
    protects text,
    id_column text,
    rows_per_unit bigint,
    disagreeing boolean DEFAULT false NOT NULL,
    epsilon_cap double precision,
    delta_cap double precision,
    frozen boolean NOT NULL,
    keyed boolean DEFAULT true NOT NULL,
    split_key bytea,
    created bigint NOT NULL
);


--
-- Name: charges; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.charges (
    account_id character varying(36) NOT NULL,
    "position" bigint NOT NULL,
    charge_id character varying(36) NOT NULL,
    run_id character varying(36) NOT NULL,
    state character varying(12) NOT NULL,
    purpose text NOT NULL,
    who character varying(120) NOT NULL,
    neighbours character varying(20) NOT NULL,
    epsilon double precision NOT NULL,
    delta double precision NOT NULL,
    mu_squared_units bigint NOT NULL,
    slack_units bigint NOT NULL,
    coordinates bigint NOT NULL,
    additive_delta_units bigint NOT NULL,
    pure_units bigint DEFAULT '0'::bigint NOT NULL,
    accountant text NOT NULL,
    certificate_id text,
    "time" bigint NOT NULL,
    previous character varying(64) NOT NULL,
    digest character varying(64) NOT NULL
);


--
-- Name: decisions; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.decisions (
    account_id character varying(36) NOT NULL,
    number bigint NOT NULL,
    charges bigint NOT NULL,
    kind character varying(12) NOT NULL,
    body text NOT NULL,
    who character varying(120) NOT NULL,
    "time" bigint NOT NULL,
    previous character varying(64) NOT NULL,
    digest character varying(64) NOT NULL
);


--
-- Name: events; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.events (
    id bigint NOT NULL,
    kind character varying(20) NOT NULL,
    account_id character varying(36),
    run_id character varying(36),
    table_id character varying(36),
    who character varying(120) NOT NULL,
    detail text NOT NULL,
    "time" bigint NOT NULL
);


--
-- Name: events_id_seq; Type: SEQUENCE; Schema: public; Owner: -
--

CREATE SEQUENCE public.events_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;


--
-- Name: events_id_seq; Type: SEQUENCE OWNED BY; Schema: public; Owner: -
--

ALTER SEQUENCE public.events_id_seq OWNED BY public.events.id;


--
-- Name: hermitage_commits; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.hermitage_commits (
    client text NOT NULL,
    number bigint NOT NULL,
    noted timestamp with time zone NOT NULL
);


--
-- Name: releases; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.releases (
    id character varying(36) NOT NULL,
    run_id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    certificate_id text NOT NULL,
    certificate_digest character varying(64) NOT NULL,
    attestations text NOT NULL,
    who character varying(120) NOT NULL,
    sealed bigint NOT NULL
);


--
-- Name: runs; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.runs (
    id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    table_id character varying(36),
    test_table_id character varying(36),
    owner character varying(120) NOT NULL,
    config text NOT NULL,
    state character varying(10) NOT NULL,
    phase text NOT NULL,
    step bigint NOT NULL,
    steps bigint NOT NULL,
    losses text NOT NULL,
    message text NOT NULL,
    incident_id character varying(16),
    cancel_requested bigint,
    gpus integer NOT NULL,
    cpus integer NOT NULL,
    place bigint,
    host text,
    pid bigint,
    pid_created double precision,
    claimed boolean NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    heartbeat bigint,
    gpu text,
    device text,
    created bigint NOT NULL,
    started bigint,
    finished bigint
);


--
-- Name: store_version; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.store_version (
    number integer NOT NULL,
    since bigint
);


--
-- Name: tables; Type: TABLE; Schema: public; Owner: -
--

CREATE TABLE public.tables (
    id character varying(36) NOT NULL,
    account_id character varying(36) NOT NULL,
    name character varying(120) NOT NULL,
    kind character varying(10) NOT NULL,
    size bigint NOT NULL,
    state character varying(10) NOT NULL,
    fingerprint character varying(64) NOT NULL,
    keep_until bigint,
    form text,
    schema text,
    created bigint NOT NULL,
    deleted bigint
);


--
-- Name: events id; Type: DEFAULT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events ALTER COLUMN id SET DEFAULT nextval('public.events_id_seq'::regclass);


--
-- Data for Name: accounts; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.accounts VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 'survey', 'add_remove', 'person', NULL, 1, false, 6, 1e-05, false, true, '\xae0f09814427c778e58e8758b49ced1a9996237e01706d7f18ce3c198f3b26521695efc70a52c65bbf88e494816fedab11dec68771ac7778f31bf2da', 1795340626);
INSERT INTO public.accounts VALUES ('1d267877-7a00-4115-b9a5-a863261a4e8a', 'visits', 'add_remove', 'patient', 'pid', NULL, false, NULL, NULL, false, true, '\xf6c3de3caaba7491f1d3a7fe32c8251ea0a9e8727fd164d7005b80e561a3d9dde476a07fec2723419f5ec5cdf6fd08ff0100a5f300d3b2ee5644af46', 1795340632);
INSERT INTO public.accounts VALUES ('df983746-25f0-4329-a68c-852f28ec6b4e', 'cells', 'one_cell', 'person', NULL, 1, false, NULL, NULL, false, true, '\x5819fb90913a3ed33da52420f777db4e6b4d6b0cbe463bafbb0e0b35de49e0a3908ccc439c0a67ab369d9d61f2df0118d60ed799ec5b724eb16d8b3b', 1795340635);
INSERT INTO public.accounts VALUES ('3813578a-6203-40a9-a10a-26c910b299ba', 'undescribed', NULL, NULL, NULL, NULL, false, 2, 1e-06, false, true, NULL, 1795340644);
INSERT INTO public.accounts VALUES ('ef09deed-f90f-430d-a5b8-89d11e4eef0c', 'frozen', 'add_remove', 'patient', 'pid', NULL, false, NULL, NULL, true, true, NULL, 1795340644);


--
-- Data for Name: charges; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 1, '07560659-27f9-4409-b631-9874ac18fb57', '9ab0a5eb-5adc-4fb5-937d-fee35e4eaf5f', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340628, '45c10bd48351ecd6e8f5239e3e60759fc1fa47f3901c0f49c073429b2364557e', '565bf07924f86120bbf546ae89dddd33db0d0823dbb079160aa508695427758b');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 2, '07560659-27f9-4409-b631-9874ac18fb57', '9ab0a5eb-5adc-4fb5-937d-fee35e4eaf5f', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340629, '565bf07924f86120bbf546ae89dddd33db0d0823dbb079160aa508695427758b', 'abcd85b9a7a58e1c2e58b62ce61314df826dac36dfbc43e3b6f562fcd4b660df');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 3, '07560659-27f9-4409-b631-9874ac18fb57', '9ab0a5eb-5adc-4fb5-937d-fee35e4eaf5f', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', '83dba2a5f9bcdbae', 1795340631, 'abcd85b9a7a58e1c2e58b62ce61314df826dac36dfbc43e3b6f562fcd4b660df', '00ddd04b612bfc7d4879ff2e449b08eab3cb5903dd47665faaaa87f1fac86b5d');
INSERT INTO public.charges VALUES ('1d267877-7a00-4115-b9a5-a863261a4e8a', 1, 'ac1ad361-7d6c-4612-9e36-2d9ae11c238c', 'db5fa2d7-c04f-43f5-af63-25b2d2804bc2', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340633, '65db9c005ffbf0a9369e433696c1c43259383daf6d0d31c988a7292de3b538d3', '2cf3821d8f2455d5bfa6ebe3487bf95969c7b1654ffd52d2ed1eaa979024a34b');
INSERT INTO public.charges VALUES ('1d267877-7a00-4115-b9a5-a863261a4e8a', 2, 'ac1ad361-7d6c-4612-9e36-2d9ae11c238c', 'db5fa2d7-c04f-43f5-af63-25b2d2804bc2', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340634, '2cf3821d8f2455d5bfa6ebe3487bf95969c7b1654ffd52d2ed1eaa979024a34b', 'e5b3ebfb5b258488b25b20fec51c7be4e86e5d477b3c0f722f1abbb234ce78ae');
INSERT INTO public.charges VALUES ('1d267877-7a00-4115-b9a5-a863261a4e8a', 3, 'ac1ad361-7d6c-4612-9e36-2d9ae11c238c', 'db5fa2d7-c04f-43f5-af63-25b2d2804bc2', 'released', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', 'b2a86872c318e88e', 1795340635, 'e5b3ebfb5b258488b25b20fec51c7be4e86e5d477b3c0f722f1abbb234ce78ae', '2e70496a0f847fbda84d2137dcc32074990aa9463e1b0f755c505d4c36f916cd');
INSERT INTO public.charges VALUES ('df983746-25f0-4329-a68c-852f28ec6b4e', 1, '9dca463c-1c15-4808-8be4-948e7ed4df30', '63e6cf9d-4213-4d8a-829c-b63b8c0804ae', 'reserved', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795340636, '99e8689ae9dcd214a5750fb8dd3a0fd8f31ad03460e639e11daf90f85609a3d7', 'e6eb0617d64d99487792368404fa3dea7e332eff18de3763050c27709e6b23af');
INSERT INTO public.charges VALUES ('df983746-25f0-4329-a68c-852f28ec6b4e', 2, '9dca463c-1c15-4808-8be4-948e7ed4df30', '63e6cf9d-4213-4d8a-829c-b63b8c0804ae', 'spent', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', NULL, 1795340637, 'e6eb0617d64d99487792368404fa3dea7e332eff18de3763050c27709e6b23af', 'b11b878e42b8e98589e10d7c3aeeac49334a27a8d9279a9f82f42a2fb4874038');
INSERT INTO public.charges VALUES ('df983746-25f0-4329-a68c-852f28ec6b4e', 3, '9dca463c-1c15-4808-8be4-948e7ed4df30', '63e6cf9d-4213-4d8a-829c-b63b8c0804ae', 'released', 'synthetic table by kahm', 'owner', 'one_cell', 1, 1e-05, 0, 0, 0, 0, 1099511627776, 'mu^2, autodp 0.2.3.1', '54d856ee11d0ca7f', 1795340638, 'b11b878e42b8e98589e10d7c3aeeac49334a27a8d9279a9f82f42a2fb4874038', '21690aa239e624e42ad45e70009fbcc916e02359e5b7248b721328be876c22b8');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 4, '477ae303-90c0-4871-a5cd-fd2c5b24a779', '2a333010-360b-4b36-975a-c02039b15c3b', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340641, '00ddd04b612bfc7d4879ff2e449b08eab3cb5903dd47665faaaa87f1fac86b5d', 'e7ba9a3636315954e8f8c532ab48c035149fe5eaf873ec95518bceea7d4e8d87');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 5, '85d7f784-5d78-4d4a-bd26-1fb62924f874', 'c253e364-e4ce-4e08-a227-cde7a6caed7f', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340641, 'e7ba9a3636315954e8f8c532ab48c035149fe5eaf873ec95518bceea7d4e8d87', 'd54a1f1e2a73a1d90d3e08651b7b0f2fa4b10819cb4e3b7711141aa1025ccbcf');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 6, '781a98b5-7d32-4083-bf86-f80dbce46ad5', '3033e000-6d5a-4ffc-9a7b-950ed990118b', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340642, 'd54a1f1e2a73a1d90d3e08651b7b0f2fa4b10819cb4e3b7711141aa1025ccbcf', '24794d2abfc6e20b25184df9c6c75171a112eac63f35869378b6ddee9e75b96e');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 7, '319d12fb-9cde-4041-a18c-1593f4b8b618', 'aa73feb3-5442-43ac-9bd7-69a8f4cb14f9', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340643, '24794d2abfc6e20b25184df9c6c75171a112eac63f35869378b6ddee9e75b96e', '22e4496797a75695c8bbe0367674d08d6fd44bbfcd7a9b8ff437f0a588a52a73');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 8, '39c15e76-eaad-4492-8039-62235412a67b', 'c1348edc-e62c-4abb-99b6-e934cde336bc', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340643, '22e4496797a75695c8bbe0367674d08d6fd44bbfcd7a9b8ff437f0a588a52a73', 'e1f73de20275bfc9937ef0d62133b195eadf5e6aa901a03088036fc4927daac0');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 9, '523ebb25-ed35-40f4-843b-c9148303e9bc', '4aa72e63-3ccc-4364-af3a-e349e0f1415b', 'reserved', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340644, 'e1f73de20275bfc9937ef0d62133b195eadf5e6aa901a03088036fc4927daac0', '8219272eac6259ee71459b554591b512e8dde2837737ac6e1d837c1a98277b91');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 10, '523ebb25-ed35-40f4-843b-c9148303e9bc', '4aa72e63-3ccc-4364-af3a-e349e0f1415b', 'freed', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340644, '8219272eac6259ee71459b554591b512e8dde2837737ac6e1d837c1a98277b91', '51deabd57786c8134cd1e448ff24cae4063dd356416a28f4c3f835aa91c5f312');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 11, '781a98b5-7d32-4083-bf86-f80dbce46ad5', '3033e000-6d5a-4ffc-9a7b-950ed990118b', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340644, '51deabd57786c8134cd1e448ff24cae4063dd356416a28f4c3f835aa91c5f312', 'cafbc374725094b2039504bab793cdfb1dcc6529da3699ee9eff391bc3e2f1d1');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 12, '319d12fb-9cde-4041-a18c-1593f4b8b618', 'aa73feb3-5442-43ac-9bd7-69a8f4cb14f9', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340644, 'cafbc374725094b2039504bab793cdfb1dcc6529da3699ee9eff391bc3e2f1d1', '3df5fc6c03b46a080e63c3d73750c535975174d29877516b6ca8034173e38e09');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 13, '39c15e76-eaad-4492-8039-62235412a67b', 'c1348edc-e62c-4abb-99b6-e934cde336bc', 'spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340644, '3df5fc6c03b46a080e63c3d73750c535975174d29877516b6ca8034173e38e09', '973d0f24298f15c7e21f1ebe20ae80e9e657684715d271f061108d8a889a62ac');
INSERT INTO public.charges VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 14, '39c15e76-eaad-4492-8039-62235412a67b', 'c1348edc-e62c-4abb-99b6-e934cde336bc', 'failed-spent', 'synthetic table by independent', 'owner', 'add_remove', 1, 1e-06, 61602145100, 11529215046069, 1000000000, 0, 0, 'mu^2, autodp 0.2.3.1', NULL, 1795340644, '973d0f24298f15c7e21f1ebe20ae80e9e657684715d271f061108d8a889a62ac', '28afba89b9b5cafba570884a85176838c377f58bcf9639f4a77fa78c6121a320');


--
-- Data for Name: decisions; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.decisions VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 1, 0, 'cap', '{"delta": 1e-05, "epsilon": 6.0}', 'owner', 1795340626, '8a7a1387ecb00abfa6adadd691005cd0b5ddb809b2935b4a8b71afec820572be', '870a350780ab92f56f6bd746bcdc6b52de70bf253c221e0ecb6e73e1f371eef7');
INSERT INTO public.decisions VALUES ('18b567fd-bc0a-474f-8c72-af7d29c49540', 2, 0, 'unit', '{"id_column": null, "neighbours": "add_remove", "protects": "person", "rows_per_unit": 1}', '', 1795340628, '870a350780ab92f56f6bd746bcdc6b52de70bf253c221e0ecb6e73e1f371eef7', '45c10bd48351ecd6e8f5239e3e60759fc1fa47f3901c0f49c073429b2364557e');
INSERT INTO public.decisions VALUES ('1d267877-7a00-4115-b9a5-a863261a4e8a', 1, 0, 'unit', '{"id_column": "pid", "neighbours": "add_remove", "protects": "patient", "rows_per_unit": null}', '', 1795340633, '1fe8bb3e3d444bd624a63a0bd3d736b6a8c71056837d86de9150e23e28e7ec4e', '65db9c005ffbf0a9369e433696c1c43259383daf6d0d31c988a7292de3b538d3');
INSERT INTO public.decisions VALUES ('df983746-25f0-4329-a68c-852f28ec6b4e', 1, 0, 'unit', '{"id_column": null, "neighbours": "one_cell", "protects": "person", "rows_per_unit": 1}', '', 1795340636, '9a80c52a3a3aed12cb515c7e6192a6460b0d0a27e8c82db989730b1e31672707', '8bcdca741de554de7a940e1f9920a07f80ef7687bba0c94e350c6e77578cd5cd');
INSERT INTO public.decisions VALUES ('df983746-25f0-4329-a68c-852f28ec6b4e', 2, 0, 'cells', '{"change": 1.0, "label": "region", "ranges": [], "run": "63e6cf9d-4213-4d8a-829c-b63b8c0804ae"}', '', 1795340636, '8bcdca741de554de7a940e1f9920a07f80ef7687bba0c94e350c6e77578cd5cd', '99e8689ae9dcd214a5750fb8dd3a0fd8f31ad03460e639e11daf90f85609a3d7');
INSERT INTO public.decisions VALUES ('3813578a-6203-40a9-a10a-26c910b299ba', 1, 0, 'cap', '{"delta": 1e-06, "epsilon": 2.0}', 'owner', 1795340644, '744f9d8ee434549fbaff60e58f61199c15307c63a1116b1b5dde4a3f154653d4', 'c9b3866dd790f84430a466a1ef9dff10551b142b2bd1fd884316b0b5632252a0');
INSERT INTO public.decisions VALUES ('ef09deed-f90f-430d-a5b8-89d11e4eef0c', 1, 0, 'frozen', '{"because": "for the test"}', 'owner', 1795340644, 'a559e6ae602fee43b7ad0d18f6f275b57066f1443692d61714c2cf6987ed655f', '8191a726a40da6e75d15d3ea9842e675eff39d45689e090a455630fbcbe7a93e');


--
-- Data for Name: events; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.events VALUES (1, 'cap', '18b567fd-bc0a-474f-8c72-af7d29c49540', NULL, NULL, 'owner', '{}', 1795340626);
INSERT INTO public.events VALUES (2, 'owner-view', '18b567fd-bc0a-474f-8c72-af7d29c49540', '9ab0a5eb-5adc-4fb5-937d-fee35e4eaf5f', NULL, 'owner', '{"what": "report"}', 1795340631);
INSERT INTO public.events VALUES (3, 'same-table', '1d267877-7a00-4115-b9a5-a863261a4e8a', NULL, '03c71a32-f864-44ce-b47e-d4fcc41068a0', '', '{}', 1795340632);
INSERT INTO public.events VALUES (4, 'same-table', '18b567fd-bc0a-474f-8c72-af7d29c49540', NULL, '03c71a32-f864-44ce-b47e-d4fcc41068a0', '', '{}', 1795340632);
INSERT INTO public.events VALUES (5, 'table-deleted', '1d267877-7a00-4115-b9a5-a863261a4e8a', NULL, '03c71a32-f864-44ce-b47e-d4fcc41068a0', 'owner', '{}', 1795340635);
INSERT INTO public.events VALUES (6, 'same-table', '1d267877-7a00-4115-b9a5-a863261a4e8a', NULL, '0db49c57-9230-40a8-b7a7-3f9e3890e6b6', '', '{}', 1795340635);
INSERT INTO public.events VALUES (7, 'same-table', '18b567fd-bc0a-474f-8c72-af7d29c49540', NULL, '0db49c57-9230-40a8-b7a7-3f9e3890e6b6', '', '{}', 1795340635);
INSERT INTO public.events VALUES (8, 'same-table', 'df983746-25f0-4329-a68c-852f28ec6b4e', NULL, '0db49c57-9230-40a8-b7a7-3f9e3890e6b6', '', '{}', 1795340635);
INSERT INTO public.events VALUES (9, 'table-deleted', 'df983746-25f0-4329-a68c-852f28ec6b4e', NULL, '0db49c57-9230-40a8-b7a7-3f9e3890e6b6', 'owner', '{}', 1795340639);
INSERT INTO public.events VALUES (10, 'owner-view', '18b567fd-bc0a-474f-8c72-af7d29c49540', NULL, NULL, 'owner', '{"what": "kinds of columns"}', 1795340639);
INSERT INTO public.events VALUES (11, 'cap', '3813578a-6203-40a9-a10a-26c910b299ba', NULL, NULL, 'owner', '{}', 1795340644);
INSERT INTO public.events VALUES (12, 'frozen', 'ef09deed-f90f-430d-a5b8-89d11e4eef0c', NULL, NULL, 'owner', '{"because": "for the test"}', 1795340644);


--
-- Data for Name: hermitage_commits; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.hermitage_commits VALUES ('b8abbd27660840ddbc5683a47b028a38', 1, '2026-11-22 09:43:43.540075+00');
INSERT INTO public.hermitage_commits VALUES ('112a380b96924adaa59be29a7c74b220', 5, '2026-11-22 09:43:46.541576+00');
INSERT INTO public.hermitage_commits VALUES ('9be62fbfa3a248268b698f02305c45c2', 17, '2026-11-22 09:43:59.024674+00');
INSERT INTO public.hermitage_commits VALUES ('2a14830f6259419eae2101123a3f2b72', 12, '2026-11-22 09:43:59.025675+00');
INSERT INTO public.hermitage_commits VALUES ('de59eef272de4a4c96849751815ff898', 20, '2026-11-22 09:43:51.483398+00');
INSERT INTO public.hermitage_commits VALUES ('f5dfc682351d48ae8ddb50812d78df5c', 11, '2026-11-22 09:43:51.496687+00');
INSERT INTO public.hermitage_commits VALUES ('f0cfdfc981b149599400a88d1e4c1c92', 34, '2026-11-22 09:44:04.467951+00');
INSERT INTO public.hermitage_commits VALUES ('e0d5be35dbad4703b29425d82c62fdc6', 13, '2026-11-22 09:43:55.084007+00');
INSERT INTO public.hermitage_commits VALUES ('0663e65b4554444a9e698aba5a1f8f82', 16, '2026-11-22 09:43:55.087641+00');
INSERT INTO public.hermitage_commits VALUES ('340d6b6ba3e34fd59af66e42e45daafd', 17, '2026-11-22 09:44:04.572234+00');


--
-- Data for Name: releases; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.releases VALUES ('5368c059-2c3e-49a9-83c2-df1854da4149', '9ab0a5eb-5adc-4fb5-937d-fee35e4eaf5f', '18b567fd-bc0a-474f-8c72-af7d29c49540', '83dba2a5f9bcdbae', '83dba2a5f9bcdbaed7552f55e245a8a6c61353aa3649d604a53ccb372ec51223', '{"1": "run from the command line or Python"}', 'owner', 1795340631);
INSERT INTO public.releases VALUES ('6726bd8e-fdb5-45cd-baa7-60fc63f12afb', 'db5fa2d7-c04f-43f5-af63-25b2d2804bc2', '1d267877-7a00-4115-b9a5-a863261a4e8a', 'b2a86872c318e88e', 'b2a86872c318e88e41fa596f2f96716140c4922f28ff0616bf2548643c86bc76', '{"1": "run from the command line or Python"}', 'owner', 1795340635);
INSERT INTO public.releases VALUES ('31d7a4cf-a46b-4340-ac9a-de2916978780', '63e6cf9d-4213-4d8a-829c-b63b8c0804ae', 'df983746-25f0-4329-a68c-852f28ec6b4e', '54d856ee11d0ca7f', '54d856ee11d0ca7f1c2661c523e8581b640da77e4bed57b890560e534cbc2a93', '{"1": "run from the command line or Python"}', 'owner', 1795340638);


--
-- Data for Name: runs; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.runs VALUES ('9ab0a5eb-5adc-4fb5-937d-fee35e4eaf5f', '18b567fd-bc0a-474f-8c72-af7d29c49540', '046ec001-773f-4137-9e41-76046a232f4a', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'released', 'Reporting to the owner', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 24728, 3.548948659081825e+15, true, 1, 1795340631, NULL, 'cpu', 1795340628, 1795340628, 1795340631);
INSERT INTO public.runs VALUES ('db5fa2d7-c04f-43f5-af63-25b2d2804bc2', '1d267877-7a00-4115-b9a5-a863261a4e8a', '03c71a32-f864-44ce-b47e-d4fcc41068a0', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "visits", "unit": {"protects": "patient", "rows_per_unit": 4, "id_column": "pid"}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "identifier"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 24728, 3.548948659081825e+15, true, 1, 1795340634, NULL, 'cpu', 1795340633, 1795340633, 1795340635);
INSERT INTO public.runs VALUES ('63e6cf9d-4213-4d8a-829c-b63b8c0804ae', 'df983746-25f0-4329-a68c-852f28ec6b4e', '0db49c57-9230-40a8-b7a7-3f9e3890e6b6', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "cells", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "public", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-05}, "holdout": 0.0, "generator": {"name": "kahm", "options": {"mode": "cell", "n": 2}}, "rows": 60, "label": "region", "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}, "protection": "cell", "cell_change": 1.0}', 'released', 'Sealing', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, 'a machine of before', 24728, 3.548948659081825e+15, true, 1, 1795340638, NULL, 'cpu', 1795340636, 1795340636, 1795340638);
INSERT INTO public.runs VALUES ('2a333010-360b-4b36-975a-c02039b15c3b', '18b567fd-bc0a-474f-8c72-af7d29c49540', '046ec001-773f-4137-9e41-76046a232f4a', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'planned', '', 0, 0, '[]', '', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, 0, NULL, NULL, NULL, 1795340641, NULL, NULL);
INSERT INTO public.runs VALUES ('4aa72e63-3ccc-4364-af3a-e349e0f1415b', '18b567fd-bc0a-474f-8c72-af7d29c49540', '046ec001-773f-4137-9e41-76046a232f4a', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'cancelled', '', 0, 0, '[]', 'The run was cancelled before it began. Its budget never became spent, so it was freed.', NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, false, 0, NULL, NULL, NULL, 1795340644, NULL, 1795340644);
INSERT INTO public.runs VALUES ('c253e364-e4ce-4e08-a227-cde7a6caed7f', '18b567fd-bc0a-474f-8c72-af7d29c49540', '046ec001-773f-4137-9e41-76046a232f4a', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'queued', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 1, NULL, NULL, NULL, false, 0, NULL, NULL, NULL, 1795340641, NULL, NULL);
INSERT INTO public.runs VALUES ('3033e000-6d5a-4ffc-9a7b-950ed990118b', '18b567fd-bc0a-474f-8c72-af7d29c49540', '046ec001-773f-4137-9e41-76046a232f4a', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'running', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 2, 'a machine of before', 1, 1, true, 1, 1795340644, NULL, NULL, 1795340642, 1795340644, NULL);
INSERT INTO public.runs VALUES ('aa73feb3-5442-43ac-9bd7-69a8f4cb14f9', '18b567fd-bc0a-474f-8c72-af7d29c49540', '046ec001-773f-4137-9e41-76046a232f4a', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'measured', '', 0, 0, '[]', '', NULL, NULL, 0, 1, 3, 'a machine of before', 1, 1, true, 1, 1795340644, NULL, NULL, 1795340643, 1795340644, NULL);
INSERT INTO public.runs VALUES ('c1348edc-e62c-4abb-99b6-e934cde336bc', '18b567fd-bc0a-474f-8c72-af7d29c49540', '046ec001-773f-4137-9e41-76046a232f4a', NULL, 'owner', '{"format": {"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}, "account": "survey", "unit": {"protects": "person", "rows_per_unit": 1, "id_column": null}, "row_count": "private", "people_at_most": 1000, "budget": {"epsilon": 1.0, "delta": 1e-06}, "holdout": 0.2, "generator": {"name": "independent", "options": {}}, "rows": 60, "groups": [], "rules": [], "seed": 0, "device": "auto", "evaluation_share": 0.1, "undeclared": "refuse", "columns": {"pid": {"type": "drop"}, "age": {"type": "number", "low": 0.0, "high": 100.0, "step": 1.0, "missing": true}, "region": {"type": "category", "values": ["north", "south"], "missing": true}}}', 'failed', '', 0, 0, '[]', 'The worker stopped without a word.', NULL, NULL, 0, 1, 4, 'a machine of before', 1, 1, true, 1, 1795340644, NULL, NULL, 1795340643, 1795340644, 1795340644);


--
-- Data for Name: store_version; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.store_version VALUES (4, NULL);


--
-- Data for Name: tables; Type: TABLE DATA; Schema: public; Owner: -
--

INSERT INTO public.tables VALUES ('046ec001-773f-4137-9e41-76046a232f4a', '18b567fd-bc0a-474f-8c72-af7d29c49540', 'visits.csv', 'table', 2593, 'stored', 'c710f8c29789538ceb637ded6a584596701a321abb1b6d1deb8d441ed29f7daa', 5395340627, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795340627, NULL);
INSERT INTO public.tables VALUES ('03c71a32-f864-44ce-b47e-d4fcc41068a0', '1d267877-7a00-4115-b9a5-a863261a4e8a', 'visits.csv', 'table', 2593, 'deleted', 'c710f8c29789538ceb637ded6a584596701a321abb1b6d1deb8d441ed29f7daa', 5395340632, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795340632, 1795340635);
INSERT INTO public.tables VALUES ('0db49c57-9230-40a8-b7a7-3f9e3890e6b6', 'df983746-25f0-4329-a68c-852f28ec6b4e', 'visits.csv', 'table', 2593, 'deleted', 'c710f8c29789538ceb637ded6a584596701a321abb1b6d1deb8d441ed29f7daa', 5395340635, '{"separator": "auto", "header": true, "encoding": "utf-8", "missing": [""], "strip": true, "skip_rows": 0, "kind": "auto", "newlines": false}', NULL, 1795340635, 1795340639);


--
-- Name: events_id_seq; Type: SEQUENCE SET; Schema: public; Owner: -
--

SELECT pg_catalog.setval('public.events_id_seq', 12, true);


--
-- Name: accounts accounts_name_key; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_name_key UNIQUE (name);


--
-- Name: accounts accounts_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.accounts
    ADD CONSTRAINT accounts_pkey PRIMARY KEY (id);


--
-- Name: charges charges_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_pkey PRIMARY KEY (account_id, "position");


--
-- Name: decisions decisions_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_pkey PRIMARY KEY (account_id, number);


--
-- Name: events events_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.events
    ADD CONSTRAINT events_pkey PRIMARY KEY (id);


--
-- Name: hermitage_commits hermitage_commits_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.hermitage_commits
    ADD CONSTRAINT hermitage_commits_pkey PRIMARY KEY (client);


--
-- Name: releases releases_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_pkey PRIMARY KEY (id);


--
-- Name: runs runs_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (id);


--
-- Name: store_version store_version_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.store_version
    ADD CONSTRAINT store_version_pkey PRIMARY KEY (number);


--
-- Name: tables tables_pkey; Type: CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tables
    ADD CONSTRAINT tables_pkey PRIMARY KEY (id);


--
-- Name: ix_charges_charge_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_charges_charge_id ON public.charges USING btree (charge_id);


--
-- Name: ix_charges_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_charges_run_id ON public.charges USING btree (run_id);


--
-- Name: ix_events_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_events_account_id ON public.events USING btree (account_id);


--
-- Name: ix_events_kind; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_events_kind ON public.events USING btree (kind);


--
-- Name: ix_releases_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_releases_account_id ON public.releases USING btree (account_id);


--
-- Name: ix_releases_run_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_releases_run_id ON public.releases USING btree (run_id);


--
-- Name: ix_runs_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_runs_account_id ON public.runs USING btree (account_id);


--
-- Name: ix_runs_state; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_runs_state ON public.runs USING btree (state);


--
-- Name: ix_tables_account_id; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_account_id ON public.tables USING btree (account_id);


--
-- Name: ix_tables_fingerprint; Type: INDEX; Schema: public; Owner: -
--

CREATE INDEX ix_tables_fingerprint ON public.tables USING btree (fingerprint);


--
-- Name: accounts accounts_fixed; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_fixed BEFORE UPDATE ON public.accounts FOR EACH ROW WHEN ((((new.id)::text IS DISTINCT FROM (old.id)::text) OR ((new.name)::text IS DISTINCT FROM (old.name)::text) OR (new.created IS DISTINCT FROM old.created) OR ((old.neighbours IS NOT NULL) AND ((new.neighbours)::text IS DISTINCT FROM (old.neighbours)::text)) OR ((old.protects IS NOT NULL) AND (new.protects IS DISTINCT FROM old.protects)) OR ((old.id_column IS NOT NULL) AND (new.id_column IS DISTINCT FROM old.id_column)) OR ((old.rows_per_unit IS NOT NULL) AND (new.rows_per_unit IS DISTINCT FROM old.rows_per_unit)))) EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: accounts accounts_stay; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER accounts_stay BEFORE DELETE OR TRUNCATE ON public.accounts FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: charges charges_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER charges_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.charges FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: decisions decisions_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER decisions_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.decisions FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: events events_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER events_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.events FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: releases releases_append_only; Type: TRIGGER; Schema: public; Owner: -
--

CREATE TRIGGER releases_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON public.releases FOR EACH STATEMENT EXECUTE FUNCTION public.hermitage_refuse();


--
-- Name: charges charges_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.charges
    ADD CONSTRAINT charges_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: decisions decisions_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.decisions
    ADD CONSTRAINT decisions_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: releases releases_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: releases releases_run_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.releases
    ADD CONSTRAINT releases_run_id_fkey FOREIGN KEY (run_id) REFERENCES public.runs(id);


--
-- Name: runs runs_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- Name: runs runs_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_table_id_fkey FOREIGN KEY (table_id) REFERENCES public.tables(id);


--
-- Name: runs runs_test_table_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.runs
    ADD CONSTRAINT runs_test_table_id_fkey FOREIGN KEY (test_table_id) REFERENCES public.tables(id);


--
-- Name: tables tables_account_id_fkey; Type: FK CONSTRAINT; Schema: public; Owner: -
--

ALTER TABLE ONLY public.tables
    ADD CONSTRAINT tables_account_id_fkey FOREIGN KEY (account_id) REFERENCES public.accounts(id);


--
-- PostgreSQL database dump complete
--


